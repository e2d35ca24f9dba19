/* pool_test.c – every worker runs once per task, shares are whole and disjoint, for many tasks and thread counts. */
#include <stdatomic.h>

#include "check.h"
#include "cpu/pool/pool.h"

enum { ITEMS = 1000 };

typedef struct marks {
  _Atomic int hits[ITEMS];
} marks;

static void mark(void *context, uint32_t worker, uint32_t workers) {
  marks *m = context;
  uint32_t begin = 0;
  uint32_t end = 0;
  pool_range(ITEMS, worker, workers, 16, &begin, &end);
  for (uint32_t i = begin; i < end; i++) {
    atomic_fetch_add(&m->hits[i], 1);
  }
}

TEST(every_item_once_per_task) {
  for (uint32_t threads = 1; threads <= 7; threads++) {
    static marks m;
    pool *p = NULL;
    memset(&m, 0, sizeof m);
    REQUIRE(pool_open(&p, threads, NULL) == SURGE_OK);
    for (int task = 0; task < 500; task++) {
      pool_run(p, mark, &m);
    }
    pool_close(p);
    for (int i = 0; i < ITEMS; i++) {
      CHECK_EQ(m.hits[i], 500);
    }
  }
}

int main(void) {
  RUN(every_item_once_per_task);
  return check_done();
}
