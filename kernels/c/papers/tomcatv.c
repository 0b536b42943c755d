// A code like SPECfp95's tomcatv, as the papers' "ltomcatv": phases on one processor (input and
// output) alternate with phases on all.
//
// It generates a mesh: two coordinates x, y of every node of a square, as functions of the node's
// numbers, that satisfy the inverted Laplace equations (Thompson's elliptic generator)
//
//     a x_ii - 2 b x_ij + c x_jj = 0,  likewise y,
//     a = x_j^2 + y_j^2,  b = x_i x_j + y_i y_j,  c = x_i^2 + y_i^2,
//
// by relaxation of whole lines in j: a tridiagonal system a line, all of them at once. After a
// number of iterations one thread writes the mesh to a file and reads it back.
//
// What verifies it: every conformal map is a solution. The boundary is that of the exponential
// function; the inner nodes begin there too, moved in waves of a few nodes. The iterations must
// bring the mesh back to the map, up to the differences' error, which falls with the square of
// the distance of two nodes, and what is read must be what was written. That error grows over
// all iterations: what was left out in one of them shows in its digest, whose right value is
// recorded.
#define _POSIX_C_SOURCE 200809L
#include "common/digest.h"
#include "common/report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PI 3.14159265358979323846
#define TOLERANCE 1e-6 // of digests: of distances, differences of numbers that differ by h^2
#define COLUMNS 16 // lines that one thread solves side by side

static const struct class {
    int n, iterations, between; // nodes a side; iterations; of those, between two outputs
    double digests[2];          // of the distances from the map in x and y, over h^2
} classes[4] = {
    { 65, 60, 5, { -0.201604292947, -0.122658231629 } },
    { 257, 120, 5, { 0.0447730790329, 0.0458966126903 } },
    { 513, 240, 5, { 0.0655341582857, 0.104932308187 } },
    { 1025, 480, 5, { -0.174823073016, 0.0873262712125 } },
};

// fmax and the reduction `max` drop what is not a number.
#pragma omp declare reduction(larger : double : omp_out = larger_difference(omp_out, omp_in)) \
    initializer(omp_priv = 0)

struct mesh {
    int n;
    double *x, *y;           // [j][i]
    double *right_x, *right_y; // the residuals, then the corrections
    double *a, *c;           // coefficients; `c` then what elimination leaves
    double *copy;            // what was read
    FILE *file;
    long different; // numbers that were read otherwise than written
};

static void place(int n, int i, int j, double *x, double *y)
{
    const double h = 1.0 / (n - 1);
    *x = exp(i * h) * cos(j * h);
    *y = exp(i * h) * sin(j * h);
}

static void initialise(struct mesh *mesh)
{
    const int n = mesh->n;
    const double size = 0.1 / (n - 1);
#pragma omp parallel for schedule(static)
    for (int j = 0; j < n; j++)
        for (int i = 0; i < n; i++) {
            const size_t at = (size_t)j * n + i;
            const bool inside = i > 0 && i < n - 1 && j > 0 && j < n - 1;
            const double wave = inside ? size * sin(PI / 4 * i) * sin(PI / 4 * j) : 0;
            place(n, i, j, &mesh->x[at], &mesh->y[at]);
            mesh->x[at] += wave;
            mesh->y[at] -= wave;
            mesh->right_x[at] = mesh->right_y[at] = mesh->a[at] = mesh->c[at] = 0;
        }
}

// Residuals and coefficients at all inner nodes. Returns the largest residual.
static double residuals(struct mesh *mesh)
{
    const int n = mesh->n;
    double largest = 0;
#pragma omp parallel for schedule(static) reduction(larger : largest)
    for (int j = 1; j < n - 1; j++) {
        const double *restrict x = mesh->x + (size_t)j * n, *restrict y = mesh->y + (size_t)j * n;
        double *restrict right_x = mesh->right_x + (size_t)j * n;
        double *restrict right_y = mesh->right_y + (size_t)j * n;
        double *restrict to_a = mesh->a + (size_t)j * n, *restrict to_c = mesh->c + (size_t)j * n;
        for (int i = 1; i < n - 1; i++) {
            const double xi = 0.5 * (x[i + 1] - x[i - 1]), xj = 0.5 * (x[i + n] - x[i - n]);
            const double yi = 0.5 * (y[i + 1] - y[i - 1]), yj = 0.5 * (y[i + n] - y[i - n]);
            const double a = xj * xj + yj * yj, b = xi * xj + yi * yj, c = xi * xi + yi * yi;
            const double xij = x[i + n + 1] - x[i + n - 1] - x[i - n + 1] + x[i - n - 1];
            const double yij = y[i + n + 1] - y[i + n - 1] - y[i - n + 1] + y[i - n - 1];
            right_x[i] = a * (x[i + 1] - 2 * x[i] + x[i - 1]) - 0.5 * b * xij
                         + c * (x[i + n] - 2 * x[i] + x[i - n]);
            right_y[i] = a * (y[i + 1] - 2 * y[i] + y[i - 1]) - 0.5 * b * yij
                         + c * (y[i + n] - 2 * y[i] + y[i - n]);
            to_a[i] = a;
            to_c[i] = c;
        }
        for (int i = 1; i < n - 1; i++) {
            largest = larger_difference(largest, fabs(right_x[i]));
            largest = larger_difference(largest, fabs(right_y[i]));
        }
    }
    return largest;
}

// 2 (a + c) d(j) - c d(j - 1) - c d(j + 1) = right(j) along every line: the corrections.
static void solve_lines(struct mesh *mesh)
{
    const int n = mesh->n;
#pragma omp parallel for schedule(static)
    for (int block = 1; block < n - 1; block += COLUMNS) {
        const int end = block + COLUMNS < n - 1 ? block + COLUMNS : n - 1;
        for (int j = 1; j < n - 1; j++) {
            double *restrict c = mesh->c + (size_t)j * n, *restrict a = mesh->a + (size_t)j * n;
            double *restrict rx = mesh->right_x + (size_t)j * n;
            double *restrict ry = mesh->right_y + (size_t)j * n;
            for (int i = block; i < end; i++) {
                // The row before holds c / pivot in `a`; on the boundary all are zero.
                const double pivot = 1 / (2 * (a[i] + c[i]) - c[i] * a[i - n]);
                rx[i] = pivot * (rx[i] + c[i] * rx[i - n]);
                ry[i] = pivot * (ry[i] + c[i] * ry[i - n]);
                a[i] = pivot * c[i];
            }
        }
        for (int j = n - 3; j > 0; j--) {
            const double *restrict a = mesh->a + (size_t)j * n;
            double *restrict rx = mesh->right_x + (size_t)j * n;
            double *restrict ry = mesh->right_y + (size_t)j * n;
            for (int i = block; i < end; i++) {
                rx[i] += a[i] * rx[i + n];
                ry[i] += a[i] * ry[i + n];
            }
        }
    }
}

static void correct(struct mesh *mesh)
{
    const int n = mesh->n;
#pragma omp parallel for schedule(static)
    for (int j = 1; j < n - 1; j++)
        for (int i = 1; i < n - 1; i++) {
            const size_t at = (size_t)j * n + i;
            mesh->x[at] += mesh->right_x[at];
            mesh->y[at] += mesh->right_y[at];
        }
}

static void failed(const char *what)
{
    fprintf(stderr, "tomcatv: cannot %s the mesh's temporary file\n", what);
    exit(1);
}

// The phase on one processor: the mesh goes to the file and comes back.
static void write_and_read(struct mesh *mesh)
{
    const size_t nodes = (size_t)mesh->n * (size_t)mesh->n;
    double *const coordinates[2] = { mesh->x, mesh->y };
    rewind(mesh->file);
    for (int d = 0; d < 2; d++)
        if (fwrite(coordinates[d], sizeof(double), nodes, mesh->file) != nodes)
            failed("write");
    if (fflush(mesh->file) != 0)
        failed("write");
    rewind(mesh->file);
    for (int d = 0; d < 2; d++) {
        if (fread(mesh->copy, sizeof(double), nodes, mesh->file) != nodes)
            failed("read");
        for (size_t at = 0; at < nodes; at++)
            mesh->different += mesh->copy[at] != coordinates[d][at];
    }
}

// The largest distance of a node from the map, and the digests of both coordinates' distances.
static double distance(const struct mesh *mesh, struct digest digests[2])
{
    const int n = mesh->n;
    double largest = 0;
    digests[0] = digests[1] = digest_begin();
    for (int j = 0; j < n; j++)
        for (int i = 0; i < n; i++) {
            double x, y;
            place(n, i, j, &x, &y);
            x = mesh->x[(size_t)j * n + i] - x;
            y = mesh->y[(size_t)j * n + i] - y;
            largest = larger_difference(largest, hypot(x, y));
            digest_add(&digests[0], x);
            digest_add(&digests[1], y);
        }
    return largest;
}

int main(int argc, char **argv)
{
    struct options options = options_read(argc, argv, NULL);
    const struct class *class = &classes[options_row(&options)];
    const size_t nodes = (size_t)class->n * (size_t)class->n;
    struct mesh mesh = { .n = class->n, .file = tmpfile() };
    if (mesh.file == NULL)
        failed("open");
    double **const arrays[7] = { &mesh.x, &mesh.y, &mesh.right_x, &mesh.right_y,
                                 &mesh.a, &mesh.c, &mesh.copy };
    for (int a = 0; a < 7; a++)
        *arrays[a] = report_memory("the mesh", nodes, sizeof(double));
    struct report report = report_begin("tomcatv", &options, class->iterations,
                                        72.0 * (double)nodes * class->iterations);
    while (report_again(&report)) {
        double first = 0, last = 0;
        initialise(&mesh);
        mesh.different = 0;
        report_start(&report);
        for (int iteration = 0; iteration < class->iterations; iteration++) {
            last = residuals(&mesh);
            if (iteration == 0)
                first = last;
            solve_lines(&mesh);
            correct(&mesh);
            if ((iteration + 1) % class->between == 0)
                write_and_read(&mesh);
        }
        report_stop(&report);
        const double h = 1.0 / (class->n - 1);
        struct digest digests[2];
        const double largest = distance(&mesh, digests);
        check_close(&report.checks, "distance over h^2", largest / (h * h), 0, 0.1);
        check_close(&report.checks, "digest of x", digests[0].sum / (h * h), class->digests[0],
                    TOLERANCE);
        check_close(&report.checks, "digest of y", digests[1].sum / (h * h), class->digests[1],
                    TOLERANCE);
        check_close(&report.checks, "residual over first", last / first, 0, 1e-4);
        check_equal(&report.checks, "read otherwise", mesh.different, 0);
    }
    fclose(mesh.file);
    return report_end(&report);
}
