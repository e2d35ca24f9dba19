/* arena.c – see arena.h. */
#include "base/arena.h"

#include <sys/mman.h>

#include "base/error.h"
#include "base/fault.h"

enum { HUGE_PAGE = 2 << 20 };

void arena_measure(arena *a) { *a = (arena){.size = UINT64_MAX, .measuring = 1}; }

int32_t arena_open(arena *a, uint64_t bytes, surge_error *err) {
  *a = (arena){0};
  if (bytes == 0 || bytes > SIZE_MAX) {
    return error_set(err, SURGE_E_ARGUMENT, "an arena of %llu bytes", (unsigned long long)bytes);
  }
  const uint64_t whole = bytes + 2 * (uint64_t)HUGE_PAGE;
  uint8_t *mapping = fault_now() || whole < bytes ? MAP_FAILED : mmap(NULL, whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) {
    return error_set(err, SURGE_E_MEMORY, "the system refused %llu bytes of memory", (unsigned long long)bytes);
  }
  /* On a huge page's border, the first one that leaves room before it. */
  uint8_t *base = mapping + HUGE_PAGE - ((uintptr_t)mapping & (HUGE_PAGE - 1));
  if (mprotect(base, bytes, PROT_READ | PROT_WRITE) != 0) {
    munmap(mapping, whole);
    return error_set(err, SURGE_E_MEMORY, "the system refused %llu bytes of memory", (unsigned long long)bytes);
  }
  /* A wish: streams over large scratch and KV then miss the TLB less often. Refused silently on systems without huge pages. */
  madvise(base, bytes, MADV_HUGEPAGE);
  *a = (arena){.base = base, .size = bytes, .mapping = mapping, .mapping_bytes = whole};
  return SURGE_OK;
}

void arena_close(arena *a) {
  if (a->mapping != NULL) {
    munmap(a->mapping, a->mapping_bytes);
  }
  *a = (arena){0};
}

void *arena_take(arena *a, uint64_t bytes, uint64_t align) {
  uint64_t start = 0;
  uint64_t end = 0;
  if (__builtin_add_overflow(a->used, align - 1, &start) || __builtin_add_overflow(start & ~(align - 1), bytes, &end) || end > a->size) {
    a->exhausted = 1;
    return NULL;
  }
  a->used = end;
  return a->measuring ? NULL : a->base + (start & ~(align - 1));
}

void *arena_take_array(arena *a, uint64_t count, uint64_t bytes, uint64_t align) {
  uint64_t total = 0;
  if (__builtin_mul_overflow(count, bytes, &total)) {
    a->exhausted = 1;
    return NULL;
  }
  return arena_take(a, total, align);
}

int arena_measuring(const arena *a) { return a->measuring; }

uint64_t arena_used(const arena *a) { return a->used; }
