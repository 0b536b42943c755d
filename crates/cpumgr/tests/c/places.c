/* Says on which memory nodes its pages are, and how many are on the node after that of the page
   before; then it waits for the end of its input. The first thread touches all of them. With a
   number of steps it has an outer loop, by which the random placement finds them. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGES 1024
#define BYTES 4096
#define NODES 64

static char memory[PAGES * BYTES] __attribute__((aligned(BYTES)));

static void step(void) {
#pragma omp parallel for schedule(static)
  for (int i = 0; i < PAGES * BYTES; i += 64) memory[i]++;
#pragma omp parallel for schedule(static)
  for (int i = 0; i < PAGES * BYTES; i += 64) memory[i]--;
}

int main(int count, char **arguments) {
  int steps = count > 1 ? atoi(arguments[1]) : 0;
  madvise(memory, sizeof memory, MADV_NOHUGEPAGE);
  for (int i = 0; i < PAGES; i++) memory[i * BYTES] = 1;
  for (int i = 0; i < steps; i++) step();
  void *pages[PAGES];
  int status[PAGES], on[NODES] = {0}, turns = 0;
  for (int i = 0; i < PAGES; i++) pages[i] = memory + i * BYTES, status[i] = -1;
  if (syscall(SYS_move_pages, 0, (long)PAGES, pages, NULL, status, 0) != 0) return 2;
  for (int i = 0; i < PAGES; i++) {
    if (status[i] < 0 || status[i] >= NODES) return 3;
    on[status[i]]++;
  }
  int last = 0;
  for (int i = 0; i < NODES; i++) last = on[i] > 0 ? i : last;
  for (int i = 1; i < PAGES && last > 0; i++)
    turns += status[i] == (status[i - 1] + 1) % (last + 1);
  for (int i = 0; i <= last; i++) printf("%d ", on[i]);
  printf("turns %d\n", turns);
  fflush(stdout);
  while (getchar() != EOF) continue;
  return 0;
}
