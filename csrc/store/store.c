/*
 * store.c – from the manifest's flat tables to matrices that kernels can read.
 *
 * Invariant: after store_open every pointer in the table, with its whole extent, lies inside a mapping, so kernels need no checks.
 * Nothing in the tables is trusted: they came from a file.
 */
#include "store/store.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* One table row for one expert; sorted, neighbours with equal keys make a matrix. */
typedef struct piece {
  store_key key;
  uint32_t row_first;
  uint32_t tensor;
} piece;

static int compare_keys(const store_key *a, const store_key *b) {
  if (a->role != b->role) {
    return a->role < b->role ? -1 : 1;
  }
  if (a->layer != b->layer) {
    return a->layer < b->layer ? -1 : 1;
  }
  return a->expert < b->expert ? -1 : (a->expert > b->expert ? 1 : 0);
}

static int compare_pieces(const void *left, const void *right) {
  const piece *a = left;
  const piece *b = right;
  const int keys = compare_keys(&a->key, &b->key);
  if (keys != 0) {
    return keys;
  }
  return a->row_first < b->row_first ? -1 : (a->row_first > b->row_first ? 1 : 0);
}

static const surge_tensor_desc *tensor_at(const surge_engine_desc *desc, uint32_t index) {
  return &((const surge_tensor_desc *)(uintptr_t)desc->tensors)[index];
}

static const surge_scale_desc *scale_at(const surge_engine_desc *desc, int32_t index) {
  return &((const surge_scale_desc *)(uintptr_t)desc->scales)[index];
}

static const surge_file_desc *file_at(const surge_engine_desc *desc, uint32_t index) {
  return &((const surge_file_desc *)(uintptr_t)desc->files)[index];
}

/* True when `count` extents of `bytes`, `stride` apart from `offset` on, end inside a file of `file_bytes`. */
static int extent_fits(uint64_t offset, uint64_t stride, uint64_t count, uint64_t bytes, uint64_t file_bytes) {
  uint64_t span = 0;
  uint64_t end = 0;
  if (count == 0 || __builtin_mul_overflow(stride, count - 1, &span) || __builtin_add_overflow(span, bytes, &span) ||
      __builtin_add_overflow(offset, span, &end)) {
    return 0;
  }
  return end <= file_bytes;
}

static int32_t check_scale(const surge_engine_desc *desc, uint32_t index, surge_error *err) {
  const surge_tensor_desc *t = tensor_at(desc, index);
  if (t->scale < -1 || t->scale >= (int32_t)desc->scale_count) {
    return error_at(err, SURGE_E_ARGUMENT, -1, (int32_t)index, "names scale %d of %u", t->scale, desc->scale_count);
  }
  if (t->scale < 0) {
    return SURGE_OK;
  }
  const surge_scale_desc *s = scale_at(desc, t->scale);
  const quant_format *format = quant_format_find(s->dtype);
  if (format == NULL || format->block_elements != 1 || s->file >= desc->file_count) {
    return error_at(err, SURGE_E_DATA, -1, (int32_t)index, "has scales of an unknown type or file");
  }
  const uint64_t rows = s->kind == SURGE_SCALE_TENSOR ? 1 : ((uint64_t)s->row_first + t->rows + 127) / 128;
  const uint64_t cols = s->kind == SURGE_SCALE_TENSOR ? 1 : ((uint64_t)t->cols + 127) / 128;
  if (s->kind > SURGE_SCALE_TENSOR || s->scale_rows < rows || s->scale_cols < cols) {
    return error_at(err, SURGE_E_DATA, (int32_t)s->file, (int32_t)index, "has %u x %u scales where %llu x %llu are needed",
                    s->scale_rows, s->scale_cols, (unsigned long long)rows, (unsigned long long)cols);
  }
  const uint64_t bytes = (uint64_t)s->scale_rows * s->scale_cols * format->block_bytes;
  if (!extent_fits(s->offset, s->expert_stride, t->expert_count, bytes, file_at(desc, s->file)->bytes)) {
    return error_at(err, SURGE_E_DATA, (int32_t)s->file, (int32_t)index, "has scales that end past the end of the file");
  }
  return SURGE_OK;
}

static int32_t check_tensor(const surge_engine_desc *desc, uint32_t index, surge_error *err) {
  const surge_tensor_desc *t = tensor_at(desc, index);
  const int32_t at = (int32_t)index;
  if (t->role >= SURGE_ROLE_COUNT || t->file >= desc->file_count || t->expert_count == 0 || t->expert_count > 65536 || t->rows == 0 ||
      t->cols == 0) {
    return error_at(err, SURGE_E_ARGUMENT, -1, at, "has a table entry with role %u, file %u, %u experts, %u x %u", t->role, t->file,
                    t->expert_count, t->rows, t->cols);
  }
  const quant_format *format = quant_format_find(t->dtype);
  if (format == NULL) {
    return error_at(err, SURGE_E_DTYPE, (int32_t)t->file, at, "has type %u, which is not supported", t->dtype);
  }
  if (t->cols % format->block_elements != 0) {
    return error_at(err, SURGE_E_DATA, (int32_t)t->file, at, "has rows of %u values, which is no multiple of the %u in a %s block", t->cols,
                    format->block_elements, format->name);
  }
  const uint64_t row_bytes = (uint64_t)(t->cols / format->block_elements) * format->block_bytes;
  if (!extent_fits(t->offset, t->expert_stride, t->expert_count, row_bytes * t->rows, file_at(desc, t->file)->bytes)) {
    return error_at(err, SURGE_E_DATA, (int32_t)t->file, at, "ends past the end of the file");
  }
  return check_scale(desc, index, err);
}

static uint64_t count_pieces(const surge_engine_desc *desc) {
  uint64_t count = 0;
  for (uint32_t i = 0; i < desc->tensor_count; i++) {
    count += tensor_at(desc, i)->expert_count;
  }
  return count;
}

static void list_pieces(const surge_engine_desc *desc, piece *pieces) {
  uint64_t n = 0;
  for (uint32_t i = 0; i < desc->tensor_count; i++) {
    const surge_tensor_desc *t = tensor_at(desc, i);
    for (uint32_t e = 0; e < t->expert_count; e++) {
      pieces[n++] = (piece){.key = {t->role, t->layer, t->expert_first + e}, .row_first = t->row_first, .tensor = i};
    }
  }
}

static matrix_scale make_scale(const store *s, const surge_tensor_desc *t, uint32_t expert) {
  if (t->scale < 0) {
    return (matrix_scale){0};
  }
  const surge_scale_desc *d = scale_at(s->desc, t->scale);
  return (matrix_scale){
      .data = (const uint8_t *)s->files[d->file].base + d->offset + (uint64_t)(expert - t->expert_first) * d->expert_stride,
      .format = quant_format_find(d->dtype),
      .kind = d->kind,
      .row_first = d->row_first,
      .cols = d->scale_cols,
  };
}

static matrix_run make_run(const store *s, const piece *p) {
  const surge_tensor_desc *t = tensor_at(s->desc, p->tensor);
  const quant_format *format = quant_format_find(t->dtype);
  return (matrix_run){
      .blocks = (const uint8_t *)s->files[t->file].base + t->offset + (uint64_t)(p->key.expert - t->expert_first) * t->expert_stride,
      .format = format,
      .row_bytes = (size_t)(t->cols / format->block_elements) * format->block_bytes,
      .row_first = t->row_first,
      .rows = t->rows,
      .scale = make_scale(s, t, p->key.expert),
  };
}

/* Pieces first … last-1 have one key: they must share a width and follow each other without gap or overlap. */
static int32_t check_matrix(const store *s, const piece *first, const piece *last, uint32_t *ret_rows, surge_error *err) {
  uint64_t row = 0;
  const surge_tensor_desc *head = tensor_at(s->desc, first->tensor);
  for (const piece *p = first; p < last; p++) {
    const surge_tensor_desc *t = tensor_at(s->desc, p->tensor);
    if (t->row_first != row || t->cols != head->cols || t->transform != head->transform) {
      return error_at(err, SURGE_E_DATA, (int32_t)t->file, (int32_t)p->tensor, "overlaps or leaves a gap: it begins at row %u where row %llu is due",
                      t->row_first, (unsigned long long)row);
    }
    row += t->rows;
  }
  if (row > UINT32_MAX) {
    return error_at(err, SURGE_E_DATA, -1, (int32_t)first->tensor, "has too many rows");
  }
  *ret_rows = (uint32_t)row;
  return SURGE_OK;
}

static int32_t build_entries(store *s, const piece *pieces, uint64_t count, matrix_run *runs, surge_error *err) {
  uint64_t at = 0;
  while (at < count) {
    uint64_t end = at + 1;
    while (end < count && compare_keys(&pieces[at].key, &pieces[end].key) == 0) {
      end++;
    }
    uint32_t rows = 0;
    const int32_t status = check_matrix(s, &pieces[at], &pieces[end - 1] + 1, &rows, err);
    if (status < 0) {
      return status;
    }
    const surge_tensor_desc *t = tensor_at(s->desc, pieces[at].tensor);
    for (uint64_t i = at; i < end; i++) {
      runs[i] = make_run(s, &pieces[i]);
    }
    s->entries[s->entry_count++] = (store_entry){
        .key = pieces[at].key,
        .tensor = (int32_t)pieces[at].tensor,
        .transform = t->transform,
        .matrix = {.rows = rows, .cols = t->cols, .run_count = (uint32_t)(end - at), .runs = &runs[at]},
    };
    at = end;
  }
  return SURGE_OK;
}

static int copies(const surge_engine_desc *desc) { return ((const surge_plan_desc *)(uintptr_t)desc->plan)->copy_weights != 0; }

static int32_t map_files(store *s, surge_error *err) {
  for (uint32_t i = 0; i < s->desc->file_count; i++) {
    const surge_file_desc *file = file_at(s->desc, i);
    const int32_t status = copies(s->desc) ? file_map_copy(&s->files[i], file, err) : file_map_open(&s->files[i], file, err);
    if (status < 0) {
      if (err != NULL) {
        err->file = (int32_t)i;
      }
      return status;
    }
    s->file_count = i + 1;
  }
  return SURGE_OK;
}

int32_t store_open(store *s, const surge_engine_desc *desc, arena *memory, surge_error *err) {
  *s = (store){.desc = desc};
  for (uint32_t i = 0; i < desc->tensor_count; i++) {
    const int32_t status = check_tensor(desc, i, err);
    if (status < 0) {
      return status;
    }
  }
  for (uint32_t i = 0; i < desc->file_count; i++) {
    *(copies(desc) ? &s->copied_bytes : &s->mapped_bytes) += file_at(desc, i)->bytes;
  }
  const uint64_t count = count_pieces(desc);
  piece *pieces = arena_take(memory, count * sizeof(piece), _Alignof(piece));
  matrix_run *runs = arena_take(memory, count * sizeof(matrix_run), _Alignof(matrix_run));
  s->entries = arena_take(memory, count * sizeof(store_entry), _Alignof(store_entry));
  s->files = arena_take(memory, desc->file_count * sizeof(file_map), _Alignof(file_map));
  if (arena_measuring(memory)) {
    return SURGE_OK;
  }
  if (pieces == NULL || runs == NULL || s->entries == NULL || s->files == NULL) {
    return error_set(err, SURGE_E_MEMORY, "the weight table needs more memory than was measured");
  }
  list_pieces(desc, pieces);
  qsort(pieces, count, sizeof(piece), compare_pieces);
  int32_t status = map_files(s, err);
  if (status == SURGE_OK) {
    status = build_entries(s, pieces, count, runs, err);
  }
  if (status < 0) {
    store_close(s);
  }
  s->desc = NULL;
  return status;
}

void store_close(store *s) {
  for (uint32_t i = 0; i < s->file_count; i++) {
    file_map_close(&s->files[i]);
  }
  s->file_count = 0;
  s->entry_count = 0;
}

const store_entry *store_find(const store *s, uint32_t role, int32_t layer, uint32_t expert) {
  const store_key key = {role, layer, expert};
  uint32_t low = 0;
  uint32_t high = s->entry_count;
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    const int order = compare_keys(&s->entries[middle].key, &key);
    if (order == 0) {
      return &s->entries[middle];
    }
    if (order < 0) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return NULL;
}

int32_t store_find_nonfinite(const store *s, float *buffer) {
  for (uint32_t i = 0; i < s->entry_count; i++) {
    const matrix *m = &s->entries[i].matrix;
    for (uint32_t row = 0; row < m->rows; row++) {
      matrix_decode_row(m, row, buffer);
      for (uint32_t c = 0; c < m->cols; c++) {
        if (!isfinite(buffer[c])) {
          return s->entries[i].tensor;
        }
      }
    }
  }
  return -1;
}
