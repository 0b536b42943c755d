/* A 3-D transform by FFTW with OpenMP, forward and back, several times.
 *
 * For each line on standard input prints one line of JSON: seconds of the transforms, and the sum of the magnitudes of some
 * outputs as the result. Copies that are given their lines together start together.
 */
#include <complex.h>
#include <fftw3.h>
#include <math.h>
#include <omp.h>
#include <stdio.h>

int main(void) {
    enum { EDGE = 128, ROUNDS = 7 };
    const size_t count = (size_t)EDGE * EDGE * EDGE;
    fftw_init_threads();
    fftw_plan_with_nthreads(omp_get_max_threads());
    fftw_complex *a = fftw_alloc_complex(count), *b = fftw_alloc_complex(count);
    if (a == NULL || b == NULL)
        return 2;
    fftw_plan there = fftw_plan_dft_3d(EDGE, EDGE, EDGE, a, b, FFTW_FORWARD, FFTW_ESTIMATE);
    fftw_plan back = fftw_plan_dft_3d(EDGE, EDGE, EDGE, b, a, FFTW_BACKWARD, FFTW_ESTIMATE);
    for (size_t i = 0; i < count; i++)
        a[i] = (double)(i * 7919 % 1000) / 1000.0 + I * (double)(i % 13);
    puts("ready");
    fflush(stdout);
    for (int read; (read = getchar()) != EOF;) {
        if (read != '\n')
            continue;
        double begin = omp_get_wtime(), sum = 0;
        for (int round = 0; round < ROUNDS; round++) {
            fftw_execute(there);
            for (size_t i = 0; i < count; i += 9973)
                sum += cabs(b[i]);
            fftw_execute(back);
            for (size_t i = 0; i < count; i++)
                a[i] /= (double)count;
        }
        printf("{\"seconds\": %.6f, \"result\": [%.17g]}\n", omp_get_wtime() - begin, sum);
        fflush(stdout);
        if (!isfinite(sum))
            return 1;
    }
    return 0;
}
