// FT of the NAS parallel benchmarks: a heat equation in a periodic box by a fast Fourier transform
// in three dimensions; one inverse transform and one checksum a time step.
//
// Real and imaginary parts lie in arrays of their own, x fastest. A transform takes LANES lines at
// once, element by element side by side, so that all arithmetic runs over neighbours in memory.

#include "common/options.h"
#include "common/outer.h"
#include "common/random.h"
#include "common/report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define SEED UINT64_C(314159265)
#define ALPHA 1e-6
#define PI 3.14159265358979323846
#define LANES 16
#define LONGEST 512
// Lines are longer than a power of two, so that neighbours do not fall into the same cache set.
#define PAD 8

struct class {
    int nx, ny, nz, iterations;
    double sums[20][2];
};

static const struct class classes[4] = {
    { 64, 64, 64, 6,
      { { 5.546087004964e+02, 4.845363331978e+02 }, { 5.546385409189e+02, 4.865304269511e+02 },
        { 5.546148406171e+02, 4.883910722336e+02 }, { 5.545423607415e+02, 4.901273169046e+02 },
        { 5.544255039624e+02, 4.917475857993e+02 }, { 5.542683411902e+02, 4.932597244941e+02 } } },
    { 128, 128, 32, 6,
      { { 5.673612178944e+02, 5.293246849175e+02 }, { 5.631436885271e+02, 5.282149986629e+02 },
        { 5.594024089970e+02, 5.270996558037e+02 }, { 5.560698047020e+02, 5.260027904925e+02 },
        { 5.530898991250e+02, 5.249400845633e+02 }, { 5.504159734538e+02, 5.239212247086e+02 } } },
    { 256, 256, 128, 6,
      { { 5.046735008193e+02, 5.114047905510e+02 }, { 5.059412319734e+02, 5.098809666433e+02 },
        { 5.069376896287e+02, 5.098144042213e+02 }, { 5.077892868474e+02, 5.101336130759e+02 },
        { 5.085233095391e+02, 5.104914655194e+02 }, { 5.091487099959e+02, 5.107917842803e+02 } } },
    { 512, 256, 256, 20,
      { { 5.177643571579e+02, 5.077803458597e+02 }, { 5.154521291263e+02, 5.088249431599e+02 },
        { 5.146409228649e+02, 5.096208912659e+02 }, { 5.142378756213e+02, 5.101023387619e+02 },
        { 5.139626667737e+02, 5.103976610617e+02 }, { 5.137423460082e+02, 5.105948019802e+02 },
        { 5.135547056878e+02, 5.107404165783e+02 }, { 5.133910925466e+02, 5.108576573661e+02 },
        { 5.132470705390e+02, 5.109577278523e+02 }, { 5.131197729984e+02, 5.110460304483e+02 },
        { 5.130070319283e+02, 5.111252433800e+02 }, { 5.129070537032e+02, 5.111968077718e+02 },
        { 5.128182883502e+02, 5.112616233064e+02 }, { 5.127393733383e+02, 5.113203605551e+02 },
        { 5.126691062020e+02, 5.113735928093e+02 }, { 5.126064276004e+02, 5.114218460548e+02 },
        { 5.125504076570e+02, 5.114656139760e+02 }, { 5.125002331720e+02, 5.115053595966e+02 },
        { 5.124551951846e+02, 5.115415130407e+02 }, { 5.124146770029e+02, 5.115744692211e+02 } } },
};

struct field {
    int nx, ny, nz;
    double *re, *im;
};

static inline size_t place(const struct field *f, int z, int y, int x)
{
    return ((size_t)z * (size_t)f->ny + (size_t)y) * (size_t)(f->nx + PAD) + (size_t)x;
}

static struct field make_field(const struct class *class)
{
    struct field f = { .nx = class->nx, .ny = class->ny, .nz = class->nz };
    size_t size = place(&f, f.nz, 0, 0);
    f.re = report_memory("a field", size, sizeof(double));
    f.im = report_memory("a field", size, sizeof(double));
    OUTER_ARRAY(f.re, size * sizeof(double));
    OUTER_ARRAY(f.im, size * sizeof(double));
    return f;
}

// The roots of unity exp(-2 pi i k / n) of one length.
struct roots {
    int n;
    double re[LONGEST], im[LONGEST];
};

static void make_roots(struct roots *roots, int n)
{
    roots->n = n;
    for (int k = 0; k < n; k++) {
        roots->re[k] = cos(2 * PI * k / n);
        roots->im[k] = -sin(2 * PI * k / n);
    }
}

// LANES lines beside each other, and room for the other half of each pass.
struct lines {
    _Alignas(64) double re[LONGEST * LANES];
    _Alignas(64) double im[LONGEST * LANES];
    _Alignas(64) double other_re[LONGEST * LANES];
    _Alignas(64) double other_im[LONGEST * LANES];
};

// The calling thread's, kept until the program ends. If each region allocated them, glibc would map
// and unmap them each time on some runtimes, which took a tenth of class W.
static struct lines *own_lines(void)
{
    static _Thread_local struct lines *lines;
    if (lines == NULL)
        lines = report_memory("lines", 1, sizeof(struct lines));
    return lines;
}

// One pass of the self-sorting transform by four: 4 l sub-transforms' parts at distance m become l.
static void pass_four(const struct roots *roots, int l, int m, const double *restrict xr,
                      const double *restrict xi, double *restrict yr, double *restrict yi)
{
    int width = m * LANES;
    for (int j = 0; j < l; j++) {
        double r1 = roots->re[j * m], i1 = roots->im[j * m];
        double r2 = roots->re[2 * j * m], i2 = roots->im[2 * j * m];
        double r3 = roots->re[3 * j * m], i3 = roots->im[3 * j * m];
        const double *ar = xr + j * width, *ai = xi + j * width;
        const double *br = ar + l * width, *bi = ai + l * width;
        const double *cr = br + l * width, *ci = bi + l * width;
        const double *dr = cr + l * width, *di = ci + l * width;
        double *pr = yr + 4 * j * width, *pi = yi + 4 * j * width;
#pragma omp simd
        for (int k = 0; k < width; k++) {
            double acr = ar[k] + cr[k], aci = ai[k] + ci[k];
            double bdr = br[k] + dr[k], bdi = bi[k] + di[k];
            double er = ar[k] - cr[k], ei = ai[k] - ci[k];
            // -i (b - d)
            double fr = bi[k] - di[k], fi = dr[k] - br[k];
            pr[k] = acr + bdr;
            pi[k] = aci + bdi;
            double gr = er + fr, gi = ei + fi;
            pr[width + k] = gr * r1 - gi * i1;
            pi[width + k] = gr * i1 + gi * r1;
            gr = acr - bdr, gi = aci - bdi;
            pr[2 * width + k] = gr * r2 - gi * i2;
            pi[2 * width + k] = gr * i2 + gi * r2;
            gr = er - fr, gi = ei - fi;
            pr[3 * width + k] = gr * r3 - gi * i3;
            pi[3 * width + k] = gr * i3 + gi * r3;
        }
    }
}

// The last pass where the length is no power of four: by two, without roots.
static void pass_two(int m, const double *restrict xr, const double *restrict xi,
                     double *restrict yr, double *restrict yi)
{
    int width = m * LANES;
#pragma omp simd
    for (int k = 0; k < width; k++) {
        yr[k] = xr[k] + xr[width + k];
        yi[k] = xi[k] + xi[width + k];
        yr[width + k] = xr[k] - xr[width + k];
        yi[width + k] = xi[k] - xi[width + k];
    }
}

// Transforms the lines: forward, or backward by exchanging the parts. The result replaces them;
// `*re` and `*im` say where it is.
static void transform(const struct roots *roots, bool forward, struct lines *lines, double **re,
                      double **im)
{
    double *xr = forward ? lines->re : lines->im, *xi = forward ? lines->im : lines->re;
    double *yr = lines->other_re, *yi = lines->other_im;
    int l = roots->n, m = 1;
    while (l > 1) {
        if (l >= 4) {
            l /= 4;
            pass_four(roots, l, m, xr, xi, yr, yi);
            m *= 4;
        } else {
            l = 1;
            pass_two(m, xr, xi, yr, yi);
            m *= 2;
        }
        double *r = xr, *i = xi;
        xr = yr, xi = yi, yr = r, yi = i;
    }
    *re = forward ? xr : xi;
    *im = forward ? xi : xr;
}

// LANES lines, whose elements lie `stride` apart and whose first elements are neighbours.
static void along_stride(const struct field *f, size_t first, size_t stride,
                         const struct roots *roots, bool forward, struct lines *lines)
{
    for (int i = 0; i < roots->n; i++) {
        memcpy(lines->re + i * LANES, f->re + first + i * stride, LANES * sizeof(double));
        memcpy(lines->im + i * LANES, f->im + first + i * stride, LANES * sizeof(double));
    }
    double *re, *im;
    transform(roots, forward, lines, &re, &im);
    for (int i = 0; i < roots->n; i++) {
        memcpy(f->re + first + i * stride, re + i * LANES, LANES * sizeof(double));
        memcpy(f->im + first + i * stride, im + i * LANES, LANES * sizeof(double));
    }
}

// LANES neighbouring lines along x: turned on the way in and out.
static void along_x(const struct field *f, size_t first, const struct roots *roots, bool forward,
                    struct lines *lines)
{
    size_t next = (size_t)f->nx + PAD;
    for (int i = 0; i < f->nx; i++)
        for (int lane = 0; lane < LANES; lane++) {
            lines->re[i * LANES + lane] = f->re[first + lane * next + i];
            lines->im[i * LANES + lane] = f->im[first + lane * next + i];
        }
    double *re, *im;
    transform(roots, forward, lines, &re, &im);
    for (int lane = 0; lane < LANES; lane++)
        for (int i = 0; i < f->nx; i++) {
            f->re[first + lane * next + i] = re[i * LANES + lane];
            f->im[first + lane * next + i] = im[i * LANES + lane];
        }
}

struct plan {
    struct roots x, y, z;
};

// What loops over the planes of a field touch, and those over its rows in all planes.
static void tell_planes(const struct field *f)
{
    const size_t plane = place(f, 1, 0, 0) * sizeof(double);
#pragma omp parallel for schedule(static)
    for (int z = 0; z < f->nz; z++) {
        OUTER_TOUCH(f->re + place(f, z, 0, 0), plane, plane, 1);
        OUTER_TOUCH(f->im + place(f, z, 0, 0), plane, plane, 1);
    }
}

static void tell_rows(const struct field *f)
{
    const size_t plane = place(f, 1, 0, 0) * sizeof(double);
    const size_t row = place(f, 0, 1, 0) * sizeof(double);
#pragma omp parallel for schedule(static)
    for (int y = 0; y < f->ny; y++) {
        OUTER_TOUCH(f->re + place(f, 0, y, 0), plane, row, (size_t)f->nz);
        OUTER_TOUCH(f->im + place(f, 0, y, 0), plane, row, (size_t)f->nz);
    }
}

// The transform in three dimensions, in place: plane by plane along x and y, then along z; backward
// the other way round.
static void transform_planes(const struct field *f, const struct plan *plan, bool forward)
{
    size_t next = (size_t)f->nx + PAD;
#pragma omp parallel
    {
        struct lines *lines = own_lines();
#pragma omp for schedule(static)
        for (int z = 0; z < f->nz; z++) {
            for (int y = 0; forward && y < f->ny; y += LANES)
                along_x(f, place(f, z, y, 0), &plan->x, forward, lines);
            for (int x = 0; x < f->nx; x += LANES)
                along_stride(f, place(f, z, 0, x), next, &plan->y, forward, lines);
            for (int y = 0; !forward && y < f->ny; y += LANES)
                along_x(f, place(f, z, y, 0), &plan->x, forward, lines);
        }
    }
}

static void transform_along_z(const struct field *f, const struct plan *plan, bool forward)
{
    size_t plane = place(f, 1, 0, 0);
#pragma omp parallel
    {
        struct lines *lines = own_lines();
#pragma omp for schedule(static)
        for (int y = 0; y < f->ny; y++)
            for (int x = 0; x < f->nx; x += LANES)
                along_stride(f, place(f, 0, y, x), plane, &plan->z, forward, lines);
    }
}

// Random numbers, the real part before the imaginary one, x fastest.
static void start_field(const struct field *f)
{
#pragma omp parallel for schedule(static)
    for (int z = 0; z < f->nz; z++) {
        uint64_t seed = random_skip(SEED, 2 * (uint64_t)f->nx * (uint64_t)f->ny * (uint64_t)z);
        for (int y = 0; y < f->ny; y++) {
            size_t at = place(f, z, y, 0);
            for (int x = 0; x < f->nx; x++) {
                f->re[at + x] = random_next(&seed);
                f->im[at + x] = random_next(&seed);
            }
        }
    }
}

// exp(-4 alpha pi^2 t k^2), k running from -n/2 to n/2 - 1 in the order of the transform.
static void make_factors(double *factor, int n, int t)
{
    for (int i = 0; i < n; i++) {
        double k = i < n / 2 ? i : i - n;
        factor[i] = exp(-4 * ALPHA * PI * PI * t * k * k);
    }
}

// to = from after t time steps, in frequencies: a product of one factor for each dimension.
static void evolve(const struct field *from, const struct field *to, int t)
{
    double fx[LONGEST], fy[LONGEST], fz[LONGEST];
    make_factors(fx, from->nx, t);
    make_factors(fy, from->ny, t);
    make_factors(fz, from->nz, t);
#pragma omp parallel for schedule(static)
    for (int z = 0; z < from->nz; z++)
        for (int y = 0; y < from->ny; y++) {
            double of_line = fz[z] * fy[y];
            size_t at = place(from, z, y, 0);
#pragma omp simd
            for (int x = 0; x < from->nx; x++) {
                to->re[at + x] = from->re[at + x] * (of_line * fx[x]);
                to->im[at + x] = from->im[at + x] * (of_line * fx[x]);
            }
        }
}

// The sum of 1024 elements, divided by the size: the inverse transform's factor.
static void checksum(const struct field *f, double *sum)
{
    double re = 0, im = 0;
#pragma omp parallel for schedule(static) reduction(+ : re, im)
    for (int j = 1; j <= 1024; j++) {
        size_t at = place(f, 5 * j % f->nz, 3 * j % f->ny, j % f->nx);
        re += f->re[at];
        im += f->im[at];
    }
    double size = (double)f->nx * f->ny * f->nz;
    sum[0] = re / size;
    sum[1] = im / size;
}

int main(int argc, char **argv)
{
    struct options options = options_read(argc, argv, NULL);
    const struct class *class = &classes[options_row(&options)];
    struct field frequencies = make_field(class), result = make_field(class);
    struct plan *plan = report_memory("the plan", 1, sizeof(struct plan));
    double size = (double)class->nx * class->ny * class->nz, logarithm = log(size);
    double operations = size * (14.8157 + 7.19641 * logarithm
                                + (5.23518 + 7.21113 * logarithm) * class->iterations);
    // First touch, plane by plane as the loops run later.
    start_field(&result);
    struct report report = report_begin("ft", &options, class->iterations, operations);
    while (report_again(&report)) {
        double sums[20][2];
        report_start(&report);
        start_field(&frequencies);
        make_roots(&plan->x, class->nx);
        make_roots(&plan->y, class->ny);
        make_roots(&plan->z, class->nz);
        transform_planes(&frequencies, plan, true);
        transform_along_z(&frequencies, plan, true);
        for (int t = 1; t <= class->iterations; t++) {
            OUTER_BEGIN();
            if (OUTER_ASKS()) {
                tell_planes(&frequencies);
                // Evolved, then transformed along z, along y and along x.
                for (int loop = 0; loop < 3; loop++)
                    tell_planes(&result);
                tell_rows(&result);
            }
            evolve(&frequencies, &result, t);
            transform_along_z(&result, plan, false);
            transform_planes(&result, plan, false);
            checksum(&result, sums[t - 1]);
            OUTER_END();
        }
        report_stop(&report);
        for (int t = 1; t <= class->iterations; t++) {
            char name[32];
            snprintf(name, sizeof name, "checksum %d re", t);
            check_close(&report.checks, name, sums[t - 1][0], class->sums[t - 1][0], 1e-12);
            snprintf(name, sizeof name, "checksum %d im", t);
            check_close(&report.checks, name, sums[t - 1][1], class->sums[t - 1][1], 1e-12);
        }
    }
    return report_end(&report);
}
