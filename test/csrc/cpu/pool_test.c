/* pool_test.c – every worker runs once per task, every item of every phase is handed out once, for many tasks and thread counts. */
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "base/fault.h"
#include "check.h"
#include "cpu/pool/pool.h"

enum { ITEMS = 1000 };

typedef struct marks {
  pool *pool;
  _Atomic int hits[ITEMS];
} marks;

/* Two phases of different length: every item of both exactly once. */
static void mark(void *context, uint32_t worker, uint32_t workers) {
  marks *m = context;
  uint32_t begin = 0;
  uint32_t end = 0;
  CHECK(worker < workers);
  while (pool_claim(m->pool, ITEMS, 16, &begin, &end)) {
    for (uint32_t i = begin; i < end; i++) {
      atomic_fetch_add(&m->hits[i], 1);
    }
  }
  pool_sync(m->pool);
  while (pool_claim(m->pool, ITEMS / 2, 7, &begin, &end)) {
    for (uint32_t i = begin; i < end; i++) {
      CHECK_EQ(m->hits[i] % 2, 1); /* the first phase is over for everyone */
      atomic_fetch_add(&m->hits[i], 1);
    }
  }
  pool_sync(m->pool);
  while (pool_claim(m->pool, ITEMS - ITEMS / 2, 1, &begin, &end)) {
    atomic_fetch_add(&m->hits[ITEMS / 2 + begin], 1);
  }
}

TEST(every_item_once_per_task) {
  for (uint32_t threads = 1; threads <= 7; threads++) {
    static marks m;
    pool *p = NULL;
    memset(&m, 0, sizeof m);
    REQUIRE(pool_open(&p, threads, NULL) == SURGE_OK);
    m.pool = p;
    for (int task = 0; task < 500; task++) {
      pool_run(p, mark, &m);
    }
    pool_close(p);
    for (int i = 0; i < ITEMS; i++) {
      CHECK_EQ(m.hits[i], 1000);
    }
  }
}

static void look(void *context, uint32_t worker, uint32_t workers) {
  _Atomic int *faults = context;
  (void)workers;
  if (worker > 0) {
    sigset_t blocked;
    char name[16];
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    pthread_getname_np(pthread_self(), name, sizeof name);
    atomic_fetch_add(faults, !sigismember(&blocked, SIGTERM) + (strncmp(name, "surge-cpu-", 10) != 0));
  }
}

TEST(workers_take_no_signals_and_have_names) {
  pool *p = NULL;
  _Atomic int faults = 0;
  sigset_t before;
  sigset_t after;
  pthread_sigmask(SIG_SETMASK, NULL, &before);
  REQUIRE(pool_open(&p, 4, NULL) == SURGE_OK);
  pool_run(p, look, &faults);
  CHECK_EQ(faults, 0);
  pool_close(p);
  pthread_sigmask(SIG_SETMASK, NULL, &after);
  CHECK_EQ(sigismember(&after, SIGTERM), sigismember(&before, SIGTERM));
}

static int thread_count(void) {
  DIR *tasks = opendir("/proc/self/task");
  int count = 0;
  while (readdir(tasks) != NULL) {
    count++;
  }
  closedir(tasks);
  return count - 2; /* . and .. */
}

TEST(a_pool_of_one_has_no_thread) {
  const int before = thread_count();
  pool *p = NULL;
  REQUIRE(pool_open(&p, 1, NULL) == SURGE_OK);
  CHECK(thread_count() <= before); /* one that was just joined may still be listed before */
  pool_close(p);
}

TEST(every_failure_to_open_is_clean) {
  surge_error err = {.struct_size = sizeof err};
  pool *p = NULL;
  uint32_t nth = 0;
  int32_t status = SURGE_OK;
  do {
    fault_arm(++nth);
    p = NULL;
    status = pool_open(&p, 4, &err);
    CHECK((status == SURGE_OK) == (p != NULL));
    CHECK(status == SURGE_OK || status == SURGE_E_MEMORY);
  } while (status < 0 && nth < 20);
  fault_arm(0);
  CHECK_EQ(nth, 6); /* pool, table and three threads can fail; the sixth try is whole */
  REQUIRE(status == SURGE_OK);
  pool_close(p);
  CHECK_STR(err.message, "thread 4 of 4 could not be started");
}

int main(void) {
  RUN(every_item_once_per_task);
  RUN(workers_take_no_signals_and_have_names);
  RUN(a_pool_of_one_has_no_thread);
  RUN(every_failure_to_open_is_clean);
  return check_done();
}
