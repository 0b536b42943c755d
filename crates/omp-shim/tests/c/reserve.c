/* A program without OpenMP whose other libraries have used up the loader's reserve for thread-local data, but for what the
 * first argument says, in pieces of 64 bytes. The second is a library with OpenMP, the others are copies of
 * thread_data.c's. */
#define _GNU_SOURCE
#include "check.h"
#include <dlfcn.h>
#include <string.h>
#include <sys/wait.h>

/* Loads at most `most` of the libraries; returns how many were let in. */
static int load(char **libraries, int most) {
  int loaded = 0;
  while (loaded < most && dlopen(libraries[loaded], RTLD_NOW | RTLD_LOCAL)) loaded++;
  return loaded;
}

int main(int count, char **arguments) {
  CHECK(count > 3);
  int left = atoi(arguments[1]), libraries = count - 3;
  /* How many there is room for: tried by a child. */
  pid_t child = fork();
  if (child == 0) _exit(load(arguments + 3, libraries));
  int status;
  CHECK_EQUAL(waitpid(child, &status, 0), child);
  CHECK(WIFEXITED(status));
  int room = WEXITSTATUS(status);
  if (room == libraries || room < left) {
    printf("room for %d of %d libraries\n", room, libraries);
    return 3;
  }
  CHECK_EQUAL(load(arguments + 3, room - left), room - left);
  void *library = dlopen(arguments[2], RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char *why = dlerror();
    puts(strstr(why, "static TLS") ? "no room" : why);
    return 0;
  }
  int (*sum_to)(int) = (int (*)(int))dlsym(library, "sum_to");
  CHECK(sum_to);
  CHECK_EQUAL(sum_to(100), 5050);
  puts("ok");
  return 0;
}
