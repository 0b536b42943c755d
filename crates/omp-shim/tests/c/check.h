/* Checks that say what failed and where, and end the program. */
#ifndef CHECK_H
#define CHECK_H
#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                                   \
  do {                                                                                     \
    if (!(condition)) {                                                                    \
      fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition);        \
      _exit(1);                                                                            \
    }                                                                                      \
  } while (0)

#define CHECK_EQUAL(left, right)                                                           \
  do {                                                                                     \
    long long left_ = (left), right_ = (right);                                            \
    if (left_ != right_) {                                                                 \
      fprintf(stderr, "%s:%d: %s is %lld, %s is %lld\n", __FILE__, __LINE__, #left, left_, \
              #right, right_);                                                             \
      _exit(1);                                                                            \
    }                                                                                      \
  } while (0)

#include <unistd.h>
#endif
