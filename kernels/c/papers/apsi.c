// A code like SPECfp95's apsi, which does not scale: heat and a pollutant in the air, carried along
// x by the wind and mixed. Along x the step is explicit, in short parallel loops over the levels;
// along z it is implicit, a recurrence over the levels that compilers of the time left serial.
//
// The papers say only how it scales; the equations are this file's own. Both fields begin as sums
// of waves, each of which only turns and shrinks by a factor known in closed form: that verifies
// the fields after the last step, and the sum of the squares after every one.

#include "common/options.h"
#include "common/report.h"

#include <complex.h>
#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define PI 3.14159265358979323846
#define FIELDS 2
#define WAVES 3

struct class {
    int nx, nz, steps;
};

static const struct class classes[4] = {
    { 64, 16, 400 }, { 128, 32, 2000 }, { 256, 64, 4000 }, { 512, 128, 8000 },
};

// Of one field, in units of the grid and the time step.
struct physics {
    double wind, along_x, along_z;
};

static const struct physics physics[FIELDS] = { { 0.3, 0.05, 0.4 }, { 0.45, 0.1, 0.2 } };

struct wave {
    int x, z;
    double size;
};

static const struct wave waves[WAVES] = { { 1, 1, 1 }, { 2, 1, 0.5 }, { 1, 2, 0.25 } };

struct air {
    int nx, nz;
    double *at, *next; // [level][x], x with one copy at each end
    double *above;     // of each level: the factors of the recurrence
    double energy;
    double worst; // relative error of the energy, the largest of all steps
};

static inline double *level(double *field, int nx, int z)
{
    return field + (size_t)z * (size_t)(nx + 2) + 1;
}

// What a wave is multiplied with in one step.
static double complex growth(const struct class *class, const struct physics *p,
                             const struct wave *wave)
{
    double turn = 2 * PI * wave->x / class->nx;
    double complex along_x = 1 - p->wind * (1 - cexp(-I * turn)) - 2 * p->along_x * (1 - cos(turn));
    return along_x / (1 + 2 * p->along_z * (1 - cos(PI * wave->z / (class->nz + 1))));
}

// The sum of the waves after `steps` steps, into `field`.
static void make_waves(const struct class *class, const struct physics *p, int steps, double *field)
{
    double complex grown[WAVES];
    for (int w = 0; w < WAVES; w++)
        grown[w] = waves[w].size * cpow(growth(class, p, &waves[w]), steps);
#pragma omp parallel for schedule(static)
    for (int z = 0; z < class->nz; z++) {
        double *line = level(field, class->nx, z);
        for (int x = -1; x <= class->nx; x++) {
            line[x] = 0;
            for (int w = 0; w < WAVES; w++)
                line[x] += creal(grown[w] * cexp(I * (2 * PI * waves[w].x * x / class->nx)))
                           * sin(PI * waves[w].z * (z + 1) / (class->nz + 1));
        }
    }
}

// Wind, against which one looks, and mixing along x.
static void step_along_x(struct air *air, const struct physics *p)
{
#pragma omp parallel for schedule(static)
    for (int z = 0; z < air->nz; z++) {
        const double *from = level(air->at, air->nx, z);
        double *to = level(air->next, air->nx, z);
#pragma omp simd
        for (int x = 0; x < air->nx; x++)
            to[x] = from[x] - p->wind * (from[x] - from[x - 1])
                    + p->along_x * (from[x + 1] - 2 * from[x] + from[x - 1]);
    }
}

// Mixing along z: (1 + 2 a) u(z) - a (u(z - 1) + u(z + 1)) = what was there; down, then up.
static void step_along_z(struct air *air, const struct physics *p)
{
    double a = p->along_z;
    for (int z = 0; z < air->nz; z++) {
        const double *below = z == 0 ? NULL : level(air->next, air->nx, z - 1);
        double *here = level(air->next, air->nx, z);
        double pivot = 1 / (1 + 2 * a - (z == 0 ? 0 : a * air->above[z - 1]));
        air->above[z] = a * pivot;
        for (int x = 0; x < air->nx; x++)
            here[x] = (here[x] + (z == 0 ? 0 : a * below[x])) * pivot;
    }
    for (int z = air->nz - 1; z >= 0; z--) {
        const double *over = z == air->nz - 1 ? NULL : level(air->next, air->nx, z + 1);
        double *here = level(air->next, air->nx, z), *to = level(air->at, air->nx, z);
        for (int x = 0; x < air->nx; x++) {
            here[x] += z == air->nz - 1 ? 0 : air->above[z] * over[x];
            to[x] = here[x];
        }
        to[-1] = to[air->nx - 1];
        to[air->nx] = to[0];
    }
}

// The sum of the squares: what such codes print every step.
static void measure(struct air *air)
{
    double energy = 0;
#pragma omp parallel for schedule(static) reduction(+ : energy)
    for (int z = 0; z < air->nz; z++) {
        const double *line = level(air->at, air->nx, z);
        double of_line = 0;
#pragma omp simd reduction(+ : of_line)
        for (int x = 0; x < air->nx; x++)
            of_line += line[x] * line[x];
        energy += of_line;
    }
    air->energy = energy;
}

// The energies of the waves, which are orthogonal to each other, and what a step multiplies them
// with.
struct energies {
    double now[WAVES], growth[WAVES];
};

static struct energies energies_begin(const struct class *class, const struct physics *p)
{
    struct energies energies;
    for (int w = 0; w < WAVES; w++) {
        const double complex factor = growth(class, p, &waves[w]);
        energies.growth[w] = creal(factor * conj(factor));
        energies.now[w] = 0.25 * class->nx * (class->nz + 1) * waves[w].size * waves[w].size;
    }
    return energies;
}

// Compares what `measure` has found with what the waves have after one more step.
static void compare(struct air *air, struct energies *energies)
{
    double expected = 0;
    for (int w = 0; w < WAVES; w++)
        expected += energies->now[w] *= energies->growth[w];
    // Where waves have shrunk to nothing, the last digits that there are decide nothing.
    air->worst = larger_difference(air->worst,
                                   fabs(air->energy - expected) / fmax(expected, DBL_MIN));
    air->energy = NAN; // of this step: what is not measured again is not a number
}

static void check(struct checks *checks, const struct class *class, const struct physics *p,
                  struct air *air)
{
    struct air expected = *air;
    expected.at = air->next;
    make_waves(class, p, class->steps, expected.at);
    double worst = 0, most = 0;
    for (int z = 0; z < air->nz; z++)
        for (int x = 0; x < air->nx; x++) {
            double right = level(expected.at, air->nx, z)[x];
            double difference = fabs(level(air->at, air->nx, z)[x] - right);
            worst = larger_difference(worst, difference);
            most = fmax(most, fabs(right));
        }
    check_close(checks, "largest difference", worst / most, 0, 1e-9);
    check_close(checks, "energy of each step", air->worst, 0, 1e-9);
}

int main(int argc, char **argv)
{
    long steps = 0;
    const struct option_extra extra[] = {
        { "steps", "time steps; 0: by the class", 0, &steps },
        { NULL, NULL, 0, NULL },
    };
    struct options options = options_read(argc, argv, extra);
    struct class chosen = classes[options_row(&options)];
    if (steps > INT_MAX) {
        fprintf(stderr, "apsi: %ld steps are more than %d\n", steps, INT_MAX);
        return 2;
    }
    if (steps > 0)
        chosen.steps = (int)steps;
    const struct class *class = &chosen;
    struct air air[FIELDS];
    size_t size = (size_t)class->nz * (size_t)(class->nx + 2);
    for (int f = 0; f < FIELDS; f++)
        air[f] = (struct air){
            .nx = class->nx,
            .nz = class->nz,
            .at = report_memory("the air", size, sizeof(double)),
            .next = report_memory("the air", size, sizeof(double)),
            .above = report_memory("the air", (size_t)class->nz, sizeof(double)),
        };
    // 8 operations a point along x, 5 along z, 2 of the energy.
    double operations = 15.0 * FIELDS * class->steps * class->nx * class->nz;
    struct report report = report_begin("apsi", &options, class->steps, operations);
    while (report_again(&report)) {
        struct energies energies[FIELDS];
        for (int f = 0; f < FIELDS; f++) {
            make_waves(class, &physics[f], 0, air[f].at);
            energies[f] = energies_begin(class, &physics[f]);
            air[f].worst = 0;
        }
        report_start(&report);
        for (int step = 0; step < class->steps; step++)
            for (int f = 0; f < FIELDS; f++) {
                step_along_x(&air[f], &physics[f]);
                step_along_z(&air[f], &physics[f]);
                measure(&air[f]);
                compare(&air[f], &energies[f]);
            }
        report_stop(&report);
        for (int f = 0; f < FIELDS; f++)
            check(&report.checks, class, &physics[f], &air[f]);
    }
    return report_end(&report);
}
