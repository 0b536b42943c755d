/* Obeys commands, one letter a line, and answers with one line each:
 *   r  runs a region of default size:   "SIZE THREADS SAME", where THREADS counts the process's threads and SAME is 1 if
 *      member 1, when there is one, was the same kernel thread as ever
 *   f  forks a child that runs a region: the child's SIZE, and then the child waits in it until x comes
 *   w  runs a region of default size: the processors on which its members are
 *   n  what `nproc` says that is run by the program
 *   t  runs a region of default size: the main thread's turn in us as the kernel has it, 0 where it has none of its own
 *   e  runs a region of two threads: the same
 *   p  makes a thread: the same of that
 *   q  ends */
#define _GNU_SOURCE
#include <dirent.h>
#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static long second;

static int region(int *same) {
  int size = 0;
  long tid = 0;
#pragma omp parallel shared(size, tid)
  {
    if (omp_get_thread_num() == 0) size = omp_get_num_threads();
    if (omp_get_thread_num() == 1) tid = gettid();
  }
  if (tid && !second) second = tid;
  *same = !tid || tid == second;
  return size;
}

static void places(void) {
  int seen[64] = {0}, size = 0;
#pragma omp parallel shared(seen, size)
  {
    int id = omp_get_thread_num();
    if (id == 0) size = omp_get_num_threads();
    if (id < 64) seen[id] = sched_getcpu();
  }
  for (int id = 0; id < size && id < 64; id++) printf(id ? " %d" : "%d", seen[id]);
  puts("");
}

static int threads(void) {
  DIR *tasks = opendir("/proc/self/task");
  int count = 0;
  for (struct dirent *entry; (entry = readdir(tasks));) count += entry->d_name[0] != '.';
  closedir(tasks);
  return count;
}

static void *turn(void *answer) {
  struct {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
  } attributes = {0};
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0) perror("sched_getattr");
  *(uint64_t *)answer = attributes.runtime / 1000;
  return NULL;
}

int main(void) {
  char line[16];
  int same;
  uint64_t us;
  pthread_t thread;
  setvbuf(stdout, NULL, _IOLBF, 0);
  region(&same);
  puts("ready");
  while (fgets(line, sizeof line, stdin)) {
    if (line[0] == 'r') {
      int size = region(&same);
      printf("%d %d %d\n", size, threads(), same);
    } else if (line[0] == 'w') {
      places();
    } else if (line[0] == 'f') {
      if (fork() == 0) {
        printf("%d\n", region(&same));
        while (fgets(line, sizeof line, stdin) && line[0] != 'x') continue;
        printf("%d\n", region(&same));
        _exit(0);
      }
      wait(NULL);
    } else if (line[0] == 'n') {
      if (system("env -u OMP_NUM_THREADS nproc") != 0) puts("no nproc");
    } else if (line[0] == 't') {
      region(&same);
      turn(&us);
      printf("%lu\n", us);
    } else if (line[0] == 'e') {
#pragma omp parallel num_threads(2)
      if (omp_get_thread_num() == 0) turn(&us);
      printf("%lu\n", us);
    } else if (line[0] == 'p') {
      if (pthread_create(&thread, NULL, turn, &us) != 0) perror("pthread_create");
      pthread_join(thread, NULL);
      printf("%lu\n", us);
    } else if (line[0] == 'q') {
      return 0;
    }
  }
  return 1;
}
