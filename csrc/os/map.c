/* map.c – see map.h. */
#include "os/map.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fault.h"

static uint64_t mtime_ns(const struct statx *st) {
  return (uint64_t)st->stx_mtime.tv_sec * 1000000000u + (uint64_t)st->stx_mtime.tv_nsec;
}

static int32_t check_identity(int fd, const surge_file_desc *desc, surge_error *err) {
  struct statx st; /* not fstat: its symbol is newer than the glibc this library must load on */
  if (statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &st) != 0) {
    return error_set(err, SURGE_E_IO, "cannot be examined: %s", strerror(errno));
  }
  if (!S_ISREG(st.stx_mode)) {
    return error_set(err, SURGE_E_IO, "is not a regular file");
  }
  if (st.stx_size != desc->bytes) {
    return error_set(err, SURGE_E_CHANGED, "has %lld bytes now and had %llu when it was read first", (long long)st.stx_size,
                     (unsigned long long)desc->bytes);
  }
  if (mtime_ns(&st) != desc->mtime_ns || st.stx_ino != desc->inode) {
    return error_set(err, SURGE_E_CHANGED, "was changed or replaced since it was read first");
  }
  return SURGE_OK;
}

static int32_t map_file(file_map *map, int fd, uint64_t bytes, surge_error *err) {
  errno = ENOMEM; /* of an injected failure; mmap sets its own */
  void *base = fault_now() ? MAP_FAILED : mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
  if (base == MAP_FAILED) {
    return error_set(err, SURGE_E_IO, "cannot be mapped: %s", strerror(errno));
  }
  *map = (file_map){base, bytes};
  return SURGE_OK;
}

/* In which a file is copied. */
enum { PIECE = 16 << 20 };

static int32_t read_piece(int fd, uint8_t *to, uint64_t offset, uint64_t bytes, surge_error *err) {
  for (uint64_t done = 0; done < bytes;) {
    const ssize_t n = pread(fd, to + done, bytes - done, (off_t)(offset + done));
    if (n == 0) {
      return error_set(err, SURGE_E_CHANGED, "ends after %llu bytes", (unsigned long long)(offset + done));
    }
    if (n < 0 && errno != EINTR) {
      return error_set(err, SURGE_E_IO, "cannot be read: %s", strerror(errno));
    }
    done += n > 0 ? (uint64_t)n : 0;
  }
  return SURGE_OK;
}

static int32_t copy_file(file_map *map, int fd, uint64_t bytes, surge_error *err) {
  /* Whole huge pages, so that the kernel places them on a border. */
  const uint64_t whole = (bytes + FILE_MAP_HUGE_PAGE - 1) / FILE_MAP_HUGE_PAGE * FILE_MAP_HUGE_PAGE;
  uint8_t *base = fault_now() ? MAP_FAILED : mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) {
    return error_set(err, SURGE_E_MEMORY, "does not fit into memory: the system refused %llu bytes", (unsigned long long)whole);
  }
  *map = (file_map){base, whole};
  madvise(base, whole, MADV_HUGEPAGE);
  for (uint64_t at = 0; at < bytes; at += PIECE) {
    const uint64_t piece = bytes - at < PIECE ? bytes - at : PIECE;
    const int32_t status = read_piece(fd, base + at, at, piece, err);
    if (status < 0) {
      file_map_close(map);
      return status;
    }
    posix_fadvise(fd, (off_t)at, (off_t)piece, POSIX_FADV_DONTNEED);
  }
  mprotect(base, whole, PROT_READ);
  return SURGE_OK;
}

static int32_t open_file(file_map *map, const surge_file_desc *desc, int32_t (*take)(file_map *, int, uint64_t, surge_error *),
                         surge_error *err) {
  char path[PATH_MAX];
  if (desc->path == 0 || desc->path_bytes == 0 || desc->path_bytes >= sizeof path || desc->bytes == 0 || desc->bytes > SIZE_MAX - FILE_MAP_HUGE_PAGE) {
    return error_set(err, SURGE_E_ARGUMENT, "has no usable path or no content");
  }
  memcpy(path, (const void *)(uintptr_t)desc->path, desc->path_bytes);
  path[desc->path_bytes] = '\0';
  const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    return error_set(err, errno == ENOENT ? SURGE_E_MISSING : SURGE_E_IO, "cannot be opened: %s", strerror(errno));
  }
  int32_t status = check_identity(fd, desc, err);
  if (status == SURGE_OK) {
    status = take(map, fd, desc->bytes, err);
  }
  close(fd); /* the mapping stays */
  return status;
}

int32_t file_map_open(file_map *map, const surge_file_desc *desc, surge_error *err) { return open_file(map, desc, map_file, err); }

int32_t file_map_copy(file_map *map, const surge_file_desc *desc, surge_error *err) { return open_file(map, desc, copy_file, err); }

void file_map_close(file_map *map) {
  if (map->base != NULL) {
    munmap(map->base, map->bytes);
  }
  *map = (file_map){0};
}
