// A client of permits, as oneTBB is: `arenas LIBRARY alone` where no manager is, `arenas LIBRARY
// flip` under one whose grant goes from one processor to two and back all the time.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "check.h"

#define INVALID 0x78000004
enum { INACTIVE = 1, IDLE = 3, ACTIVE = 4, AS_INACTIVE = 8 };

struct constraints {
  int32_t least, most;
  void *mask;
  int32_t node, core_type, threads_per_core;
};
struct request {
  int32_t least, most;
  struct constraints *constraints;
  uint32_t count;
  int32_t priority;
  uint32_t flags;
  char reserved[4];
};
struct permit {
  uint32_t *workers;
  void **masks;
  uint32_t count;
  uint8_t state;
  uint32_t flags;
};
struct changes {
  unsigned number : 1, state : 1, rest : 30;
};
typedef int (*callback)(void *, void *, struct changes);

static int (*tcm_connect)(callback, uint64_t *);
static int (*tcm_disconnect)(uint64_t);
static int (*tcm_request)(uint64_t, struct request, void *, void **, struct permit *);
static int (*tcm_get)(void *, struct permit *);
static int (*tcm_release)(void *), (*tcm_idle)(void *), (*tcm_deactivate)(void *);
static int (*tcm_activate)(void *), (*tcm_register)(void *), (*tcm_unregister)(void);
static int (*tcm_version)(char *, uint32_t);

static void find(void *library, const char *name, void *place) {
  void *found = dlsym(library, name);
  CHECK(found);
  memcpy(place, &found, sizeof found);
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec + time.tv_nsec * 1e-9;
}

// An arena.
struct arena {
  void *handle;
  int is_released, calls;
};

static uint32_t read_workers(void *handle, int state) {
  uint32_t workers = 99;
  struct permit permit = {&workers, NULL, 1, 0, 0};
  CHECK(tcm_get(handle, &permit) == 0 && permit.state == state && permit.flags == 0);
  return workers;
}

static int changed(void *handle, void *argument, struct changes changes) {
  struct arena *arena = argument;
  CHECK(!__atomic_load_n(&arena->is_released, __ATOMIC_SEQ_CST));
  CHECK(changes.number || changes.state);
  uint32_t workers;
  struct permit permit = {&workers, NULL, 1, 0, 0};
  CHECK(tcm_get(handle, &permit) == 0);
  __atomic_fetch_add(&arena->calls, 1, __ATOMIC_RELAXED);
  return 0;
}

static const struct request wish = {0, 3, NULL, 0, 1 << 30, 0, ""};
static uint64_t client;

static void *come_and_go(void *nothing) {
  double end = now() + 0.7;
  while (now() < end) {
    struct arena arena = {NULL, 0, 0};
    struct request first = wish;
    first.flags = AS_INACTIVE;
    CHECK(tcm_request(client, first, &arena, &arena.handle, NULL) == 0 && arena.handle);
    CHECK(read_workers(arena.handle, INACTIVE) == 0 && tcm_register(arena.handle) == 0);
    void *before = arena.handle;
    CHECK(tcm_request(client, wish, &arena, &arena.handle, NULL) == 0 && arena.handle == before);
    CHECK(read_workers(arena.handle, ACTIVE) <= 1);
    sched_yield();
    CHECK(tcm_unregister() == 0 && tcm_release(arena.handle) == 0);
    __atomic_store_n(&arena.is_released, 1, __ATOMIC_SEQ_CST);
  }
  return nothing;
}

static void follow(struct arena *arena) {
  double end = now() + 20;
  for (int changes = 0, before = -1; changes < 6;) {
    int workers = (int)read_workers(arena->handle, ACTIVE);
    CHECK(workers == 0 || workers == 1);
    changes += workers != before;
    before = workers;
    CHECK(now() < end);
  }
  CHECK(arena->calls > 2);
}

int main(int count, char **arguments) {
  CHECK(count == 3);
  void *library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
  CHECK(library);
  find(library, "tcmConnect", &tcm_connect);
  find(library, "tcmDisconnect", &tcm_disconnect);
  find(library, "tcmRequestPermit", &tcm_request);
  find(library, "tcmGetPermitData", &tcm_get);
  find(library, "tcmReleasePermit", &tcm_release);
  find(library, "tcmIdlePermit", &tcm_idle);
  find(library, "tcmDeactivatePermit", &tcm_deactivate);
  find(library, "tcmActivatePermit", &tcm_activate);
  find(library, "tcmRegisterThread", &tcm_register);
  find(library, "tcmUnregisterThread", &tcm_unregister);
  find(library, "tcmGetVersionInfo", &tcm_version);

  char text[8];
  CHECK(tcm_version(text, sizeof text) == 0 && strcmp(text, "TCM: NA") == 0);
  CHECK(tcm_version(text, 0) == INVALID && tcm_version(NULL, 8) == INVALID);
  CHECK(tcm_connect(NULL, &client) == INVALID && tcm_connect(changed, NULL) == INVALID);
  if (strcmp(arguments[2], "alone") == 0) {
    CHECK(tcm_connect(changed, &client) != 0);
    puts("ok");
    return 0;
  }
  CHECK(tcm_connect(changed, &client) == 0);
  struct arena arena = {NULL, 0, 0}, other = arena, rigid = arena;

  // What makes no sense.
  struct request wrong = wish;
  wrong.least = 4;
  CHECK(tcm_request(client, wrong, &arena, &arena.handle, NULL) == INVALID && !arena.handle);
  wrong = wish;
  wrong.count = 2;
  CHECK(tcm_request(client, wrong, &arena, &arena.handle, NULL) == INVALID);
  CHECK(tcm_request(client, wish, &arena, NULL, NULL) == INVALID);
  CHECK(tcm_request(client + 1, wish, &arena, &arena.handle, NULL) == INVALID);
  void *nowhere = (void *)0x1234;
  CHECK(tcm_request(client, wish, &arena, &nowhere, NULL) == INVALID);
  CHECK(tcm_get(nowhere, NULL) == INVALID && tcm_release(nowhere) == INVALID);
  CHECK(tcm_idle(NULL) == INVALID && tcm_activate(nowhere) == INVALID);
  CHECK(tcm_deactivate(nowhere) == INVALID && tcm_register(nowhere) == INVALID);
  CHECK(tcm_disconnect(client + 1) == INVALID);

  CHECK(tcm_request(client, wish, &arena, &arena.handle, NULL) == 0 && arena.handle);
  follow(&arena);

  // An arena inside needs a worker, whatever is granted; of one that rests there is none.
  struct request needs = wish;
  needs.least = 1;
  uint32_t workers = 99;
  struct permit permit = {&workers, NULL, 1, 0, 0};
  CHECK(tcm_request(client, needs, &other, &other.handle, &permit) == 0);
  CHECK(workers == 1 && permit.state == ACTIVE);
  CHECK(tcm_idle(other.handle) == 0 && read_workers(other.handle, IDLE) <= 1);
  CHECK(tcm_activate(other.handle) == 0 && read_workers(other.handle, ACTIVE) == 1);
  CHECK(tcm_deactivate(other.handle) == 0 && read_workers(other.handle, INACTIVE) == 0);
  // By constraints: a number for each.
  struct constraints parts[2] = {{0, -1, NULL, -1, -1, -1}, {1, -1, NULL, -1, -1, -1}};
  struct request parted = {-1, -1, parts, 2, 0, 0, ""};
  uint32_t each[2] = {9, 9};
  permit = (struct permit){each, NULL, 2, 0, 0};
  CHECK(tcm_request(client, parted, &other, &other.handle, &permit) == 0);
  CHECK(each[0] == 0 && each[1] == 1);
  CHECK(tcm_release(other.handle) == 0 && tcm_get(other.handle, &permit) == INVALID);
  follow(&arena);

  // One that is not to be changed while it is active.
  CHECK(tcm_deactivate(arena.handle) == 0);
  struct request keeps = wish;
  keeps.flags = 2;
  CHECK(tcm_request(client, keeps, &rigid, &rigid.handle, NULL) == 0);
  uint32_t kept = read_workers(rigid.handle, ACTIVE);
  for (double end = now() + 0.2; now() < end;) CHECK(read_workers(rigid.handle, ACTIVE) == kept);
  CHECK(tcm_release(rigid.handle) == 0 && tcm_activate(arena.handle) == 0);

  pthread_t threads[4];
  for (int i = 0; i < 4; i++) CHECK(pthread_create(&threads[i], NULL, come_and_go, NULL) == 0);
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  follow(&arena);

  // A child has the parent's arenas, none of their workers, and hangs nowhere.
  for (int i = 0; i < 20; i++) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      CHECK(read_workers(arena.handle, ACTIVE) == 0);
      _exit(tcm_release(arena.handle) || tcm_disconnect(client));
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
  }
  follow(&arena);

  CHECK(tcm_disconnect(client) == 0 && tcm_get(arena.handle, &permit) == INVALID);
  arena.is_released = 1;
  usleep(50000);
  puts("ok");
  return 0;
}
