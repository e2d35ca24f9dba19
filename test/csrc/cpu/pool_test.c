/* pool_test.c – every worker runs once per task, every item of every phase is handed out once, for many tasks and thread counts. */
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>

#include "base/fault.h"
#include "check.h"
#include "cpu/pool/pool.h"
#include "os/affinity.h"

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
    REQUIRE(pool_open(&p, threads, NULL, NULL) == SURGE_OK);
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
  REQUIRE(pool_open(&p, 4, NULL, NULL) == SURGE_OK);
  pool_run(p, look, &faults);
  CHECK_EQ(faults, 0);
  pool_close(p);
  pthread_sigmask(SIG_SETMASK, NULL, &after);
  CHECK_EQ(sigismember(&after, SIGTERM), sigismember(&before, SIGTERM));
}

typedef struct place {
  cpu_mask mask;
  int cpu;
} place;

static void stand(void *context, uint32_t worker, uint32_t workers) {
  place *at = (place *)context + worker;
  (void)workers;
  cpu_mask_get(&at->mask);
  at->cpu = sched_getcpu();
}

/* This process's processors, `most` of them at most; returns how many. */
static uint32_t own_cpus(uint32_t *ret_cpus, uint32_t most) {
  cpu_mask mask;
  uint32_t count = 0;
  cpu_mask_get(&mask);
  for (uint32_t cpu = 0; cpu < CPUS_MAX && count < most; cpu++) {
    if (cpu_mask_has(&mask, cpu)) {
      ret_cpus[count++] = cpu;
    }
  }
  return count;
}

TEST(a_pinned_pool_runs_where_it_is_told) {
  place places[4];
  uint32_t cpus[4];
  const uint32_t count = own_cpus(cpus, 4);
  cpu_mask before;
  cpu_mask after;
  pool *p = NULL;
  cpu_mask_get(&before);
  for (int turn = 0; turn < 2; turn++) { /* in order, then the other way round */
    REQUIRE(pool_open(&p, count, cpus, NULL) == SURGE_OK);
    for (int task = 0; task < 50; task++) {
      REQUIRE(pool_enter(p, NULL) == SURGE_OK);
      pool_run(p, stand, places);
      pool_leave(p);
      for (uint32_t i = 0; i < count; i++) {
        CHECK_EQ(places[i].cpu, cpus[i]);
        CHECK_EQ(cpu_mask_count(&places[i].mask), 1);
      }
      cpu_mask_get(&after);
      CHECK_BYTES(&after, &before, sizeof after); /* the caller is free again */
    }
    pool_close(p);
    for (uint32_t i = 0; i < count / 2; i++) {
      const uint32_t kept = cpus[i];
      cpus[i] = cpus[count - 1 - i];
      cpus[count - 1 - i] = kept;
    }
  }
}

TEST(processors_that_cannot_be_had_are_refused) {
  surge_error err = {.struct_size = sizeof err};
  uint32_t cpus[2];
  char expected[200];
  char allowed[64];
  cpu_mask before;
  cpu_mask after;
  pool *p = NULL;
  own_cpus(cpus, 1);
  cpu_mask_get(&before);
  cpu_mask_text(&before, allowed, sizeof allowed);
  const uint32_t foreign[] = {cpus[0], CPUS_MAX - 1, CPUS_MAX, UINT32_MAX}; /* the first one: named twice */
  for (uint32_t i = 0; i < 4; i++) {
    cpus[1] = foreign[i];
    CHECK_EQ(pool_open(&p, 2, cpus, &err), SURGE_E_DEVICE);
    snprintf(expected, sizeof expected, "the plan pins a thread to CPU %u, which is named twice or not among those this process may use (%s)", cpus[1],
             allowed);
    CHECK_STR(err.message, expected);
  }
  fault_arm(3); /* after the pool and its table */
  CHECK_EQ(pool_open(&p, 1, cpus, &err), SURGE_E_DEVICE);
  fault_arm(0);
  snprintf(expected, sizeof expected, "thread 1 of 1 cannot be pinned to CPU %u: Invalid argument", cpus[0]);
  CHECK_STR(err.message, expected);
  cpu_mask_get(&after);
  CHECK_BYTES(&after, &before, sizeof after);
  CHECK(p == NULL);
}

TEST(sets_of_processors_as_text) {
  cpu_mask mask = {{0xf, 1, 1u << 31 | 1u << 30}};
  char text[24];
  cpu_mask_text(&mask, text, sizeof text);
  CHECK_STR(text, "0-3,64,158-159");
  cpu_mask_text(&mask, text, 12);
  CHECK_STR(text, "0-3,64…");
  memset(&mask, 0xff, sizeof mask);
  cpu_mask_text(&mask, text, sizeof text);
  CHECK_STR(text, "0-8191");
  CHECK_EQ(cpu_mask_count(&mask), CPUS_MAX);
  memset(&mask, 0x55, sizeof mask); /* as long as can be */
  cpu_mask_text(&mask, text, sizeof text);
  CHECK(strlen(text) < sizeof text);
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
  REQUIRE(pool_open(&p, 1, NULL, NULL) == SURGE_OK);
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
    status = pool_open(&p, 4, NULL, &err);
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
  RUN(a_pinned_pool_runs_where_it_is_told);
  RUN(processors_that_cannot_be_had_are_refused);
  RUN(sets_of_processors_as_text);
  RUN(a_pool_of_one_has_no_thread);
  RUN(every_failure_to_open_is_clean);
  return check_done();
}
