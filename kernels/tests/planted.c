// A race on purpose: `make race` demands that ThreadSanitizer finds it. Both threads add to one sum.
#include <stdio.h>

int main(void)
{
    static volatile long sum;
#pragma omp parallel for schedule(static) num_threads(2)
    for (int i = 0; i < 1000; i++)
        sum += i;
    printf("%ld\n", sum);
    return 0;
}
