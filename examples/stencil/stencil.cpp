// Jacobi and conjugate gradients with a 7-point stencil on a 3-D process grid.
//
//     stencil n steps
//
// Every rank owns a cube of n x n x n cells (weak scaling). The operator is the periodic Helmholtz stencil
//     (A u)_i = (6 + SHIFT) u_i - sum of the six neighbours,
// symmetric, positive definite and the same on every rank: no rank has less to do at a border of the domain.
//
// Loops run over flat lists of cells, not over three nested indices. A kernel's number of executed basic
// blocks is then a n^3 + b (or a n^2 + b for faces) without terms of lower order.

#define OMPI_SKIP_MPICXX 1  // the C++ bindings of old MPI headers add functions nobody calls
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

// Kernels stay functions of their own in every build, so that each has its own place in a profile.
#define KERNEL static __attribute__((noinline))

static const double SHIFT = 0.1;
static const double DIAGONAL = 6.0 + SHIFT;
static const int FACES = 6;  // -x, +x, -y, +y, -z, +z: the opposite of face f is f ^ 1
static const int MAX_N = 1000;

using Vector = std::vector<double>;  // (n + 2)^3 values: the cells of a rank and one layer of halo around them

struct Grid {
    int n = 0;
    int cells = 0;       // n^3
    int face_cells = 0;  // n^2
    int row = 0;         // steps to the next cell in y and in z: n + 2, (n + 2)^2
    int plane = 0;
    int rank = 0;
    int ranks = 0;
    int dims[3] = {0, 0, 0};
    int coords[3] = {0, 0, 0};
    int neighbour[FACES] = {0};
    MPI_Comm comm = MPI_COMM_NULL;
    std::vector<int> cell;       // position of each of the n^3 own cells in a Vector
    std::vector<int> send_cell;  // position of the own cells at the faces, face after face: 6 n^2
    std::vector<int> halo_cell;  // position of the halo cells, in the same order
    std::vector<double> send_buffer;
    std::vector<double> recv_buffer;

    Vector vector() const { return Vector(static_cast<size_t>(row * plane), 0.0); }
};

// ---- kernels -------------------------------------------------------------------------------------------------

// out = A u: n^3
KERNEL void apply_operator(const int *cell, int cells, int row, int plane, const double *u, double *out) {
    for (int c = 0; c < cells; ++c) {
        const int i = cell[c];
        const double around = u[i - 1] + u[i + 1] + u[i - row] + u[i + row] + u[i - plane] + u[i + plane];
        out[i] = DIAGONAL * u[i] - around;
    }
}

// One Jacobi step, next = (f + neighbours of u) / diagonal: n^3
KERNEL void jacobi_update(const int *cell, int cells, int row, int plane, const double *f, const double *u,
                          double *next) {
    for (int c = 0; c < cells; ++c) {
        const int i = cell[c];
        const double around = u[i - 1] + u[i + 1] + u[i - row] + u[i + row] + u[i - plane] + u[i + plane];
        next[i] = (f[i] + around) * (1.0 / DIAGONAL);
    }
}

// Sum of x * y over the own cells: n^3
KERNEL double dot_local(const int *cell, int cells, const double *x, const double *y) {
    double sum = 0.0;
    for (int c = 0; c < cells; ++c) {
        sum += x[cell[c]] * y[cell[c]];
    }
    return sum;
}

// y = x + beta * y: n^3
KERNEL void scale_add(const int *cell, int cells, double beta, const double *x, double *y) {
    for (int c = 0; c < cells; ++c) {
        y[cell[c]] = x[cell[c]] + beta * y[cell[c]];
    }
}

// y = y + alpha * x: n^3
KERNEL void add_scaled(const int *cell, int cells, double alpha, const double *x, double *y) {
    for (int c = 0; c < cells; ++c) {
        y[cell[c]] += alpha * x[cell[c]];
    }
}

// y = value: n^3
KERNEL void fill_cells(const int *cell, int cells, double value, double *y) {
    for (int c = 0; c < cells; ++c) {
        y[cell[c]] = value;
    }
}

// Collect the cells at all six faces: 6 n^2
KERNEL void pack_faces(const int *send_cell, int count, const double *u, double *buffer) {
    for (int k = 0; k < count; ++k) {
        buffer[k] = u[send_cell[k]];
    }
}

// Put what the neighbours sent into the halo: 6 n^2
KERNEL void unpack_faces(const int *halo_cell, int count, const double *buffer, double *u) {
    for (int k = 0; k < count; ++k) {
        u[halo_cell[k]] = buffer[k];
    }
}

// ---- communication -------------------------------------------------------------------------------------------

// Fill the halo of u: 6 messages of n^2 doubles. A rank may be its own neighbour; tags keep the faces apart.
KERNEL void exchange_halo(Grid &grid, Vector &u) {
    const int count = grid.face_cells;
    MPI_Request requests[2 * FACES];
    pack_faces(grid.send_cell.data(), FACES * count, u.data(), grid.send_buffer.data());
    for (int f = 0; f < FACES; ++f) {
        MPI_Irecv(grid.recv_buffer.data() + f * count, count, MPI_DOUBLE, grid.neighbour[f], f ^ 1, grid.comm,
                  &requests[f]);
    }
    for (int f = 0; f < FACES; ++f) {
        MPI_Isend(grid.send_buffer.data() + f * count, count, MPI_DOUBLE, grid.neighbour[f], f, grid.comm,
                  &requests[FACES + f]);
    }
    MPI_Waitall(2 * FACES, requests, MPI_STATUSES_IGNORE);
    unpack_faces(grid.halo_cell.data(), FACES * count, grid.recv_buffer.data(), u.data());
}

// Scalar product over all ranks: n^3 and an allreduce of one double
KERNEL double dot_global(const Grid &grid, const Vector &x, const Vector &y) {
    double local = dot_local(grid.cell.data(), grid.cells, x.data(), y.data());
    double global = 0.0;
    MPI_Allreduce(&local, &global, 1, MPI_DOUBLE, MPI_SUM, grid.comm);
    return global;
}

// ---- solvers -------------------------------------------------------------------------------------------------

// `steps` Jacobi steps from u = 0
KERNEL Vector solve_jacobi(Grid &grid, const Vector &f, int steps) {
    Vector u = grid.vector();
    Vector next = grid.vector();
    for (int step = 0; step < steps; ++step) {
        exchange_halo(grid, u);
        jacobi_update(grid.cell.data(), grid.cells, grid.row, grid.plane, f.data(), u.data(), next.data());
        std::swap(u, next);
    }
    return u;
}

// `steps` steps of conjugate gradients from x = 0, whether converged or not: the work depends on the arguments alone.
// Once converged, vectors stay as they are: smaller numbers would be denormal, which are ten times slower.
KERNEL Vector solve_cg(Grid &grid, const Vector &f, int steps) {
    Vector x = grid.vector();
    Vector residual = f;
    Vector direction = f;
    Vector product = grid.vector();
    double square = dot_global(grid, residual, residual);
    const double converged = 1e-200 * square;
    for (int step = 0; step < steps; ++step) {
        exchange_halo(grid, direction);
        apply_operator(grid.cell.data(), grid.cells, grid.row, grid.plane, direction.data(), product.data());
        const double curvature = dot_global(grid, direction, product);
        const double alpha = square > converged ? square / curvature : 0.0;
        add_scaled(grid.cell.data(), grid.cells, alpha, direction.data(), x.data());
        add_scaled(grid.cell.data(), grid.cells, -alpha, product.data(), residual.data());
        const double next_square = dot_global(grid, residual, residual);
        const double beta = square > converged ? next_square / square : 0.0;
        scale_add(grid.cell.data(), grid.cells, beta, residual.data(), direction.data());
        square = next_square;
    }
    return x;
}

// ---- set-up and check ----------------------------------------------------------------------------------------

// Position of a cell in a Vector: one layer of halo on each side
static int position(int n, int x, int y, int z) { return x + 1 + (n + 2) * (y + 1 + (n + 2) * (z + 1)); }

// n^3
KERNEL void list_cells(int n, int cells, int *cell) {
    for (int c = 0; c < cells; ++c) {
        cell[c] = position(n, c % n, c / n % n, c / n / n);
    }
}

// The n^2 cells of one face and the halo cells next to them, `outwards` further: n^2
KERNEL void list_face(int n, int count, int start, int step_a, int step_b, int outwards, int *send_cell,
                      int *halo_cell) {
    for (int k = 0; k < count; ++k) {
        send_cell[k] = start + k % n * step_a + k / n * step_b;
        halo_cell[k] = send_cell[k] + outwards;
    }
}

// Right-hand side in [-1, 1): a hash of the global cell, so the same for every distribution over ranks; n^3
KERNEL void make_source(int n, int cells, const int *cell, const int *coords, double *f) {
    for (int c = 0; c < cells; ++c) {
        const uint64_t x = static_cast<uint64_t>(c % n + n * coords[0]);
        const uint64_t y = static_cast<uint64_t>(c / n % n + n * coords[1]);
        const uint64_t z = static_cast<uint64_t>(c / n / n + n * coords[2]);
        uint64_t hash = (x * 73856093u) ^ (y * 19349663u) ^ (z * 83492791u);
        hash = hash * 6364136223846793005u + 1442695040888963407u;
        f[cell[c]] = static_cast<double>(hash >> 40) / (1 << 23) - 1.0;
    }
}

static Grid make_grid(int n) {
    Grid grid;
    grid.n = n;
    grid.cells = n * n * n;
    grid.face_cells = n * n;
    grid.row = n + 2;
    grid.plane = grid.row * grid.row;
    MPI_Comm_size(MPI_COMM_WORLD, &grid.ranks);
    MPI_Dims_create(grid.ranks, 3, grid.dims);
    const int periodic[3] = {1, 1, 1};
    MPI_Cart_create(MPI_COMM_WORLD, 3, grid.dims, periodic, 0, &grid.comm);
    MPI_Comm_rank(grid.comm, &grid.rank);
    MPI_Cart_coords(grid.comm, grid.rank, 3, grid.coords);

    const size_t faces = static_cast<size_t>(FACES * grid.face_cells);
    grid.cell.resize(static_cast<size_t>(grid.cells));
    grid.send_cell.resize(faces);
    grid.halo_cell.resize(faces);
    grid.send_buffer.resize(faces);
    grid.recv_buffer.resize(faces);
    list_cells(n, grid.cells, grid.cell.data());
    const int step[3] = {1, grid.row, grid.plane};
    for (int f = 0; f < FACES; ++f) {
        const int axis = f / 2;
        const bool upper = f % 2 == 1;
        int below = 0;
        int above = 0;
        MPI_Cart_shift(grid.comm, axis, 1, &below, &above);
        grid.neighbour[f] = upper ? above : below;
        const int start = position(n, 0, 0, 0) + (upper ? (n - 1) * step[axis] : 0);
        list_face(n, grid.face_cells, start, step[(axis + 1) % 3], step[(axis + 2) % 3],
                  upper ? step[axis] : -step[axis], grid.send_cell.data() + f * grid.face_cells,
                  grid.halo_cell.data() + f * grid.face_cells);
    }
    return grid;
}

// Norm of f - A u
KERNEL double residual_norm(Grid &grid, const Vector &f, Vector &u) {
    Vector residual = grid.vector();
    exchange_halo(grid, u);
    apply_operator(grid.cell.data(), grid.cells, grid.row, grid.plane, u.data(), residual.data());
    scale_add(grid.cell.data(), grid.cells, -1.0, f.data(), residual.data());
    return std::sqrt(dot_global(grid, residual, residual));
}

// How far sum(A u) is from SHIFT sum(u), relative to u. They are equal whatever u is, as what flows out of a cell flows
// into its neighbours; so this finds a wrong halo, with which the solvers would solve another system.
KERNEL double balance_error(Grid &grid, Vector &u) {
    Vector ones = grid.vector();
    fill_cells(grid.cell.data(), grid.cells, 1.0, ones.data());
    Vector product = grid.vector();
    exchange_halo(grid, u);
    apply_operator(grid.cell.data(), grid.cells, grid.row, grid.plane, u.data(), product.data());
    const double error = dot_global(grid, ones, product) - SHIFT * dot_global(grid, ones, u);
    return std::fabs(error) / std::sqrt(dot_global(grid, u, u) * dot_global(grid, ones, ones));
}

static int argument(const char *text, int limit) {
    char *end = nullptr;
    const long value = std::strtol(text, &end, 10);
    return end == text || *end != '\0' || value < 1 || value > limit ? 0 : static_cast<int>(value);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const int n = argc == 3 ? argument(argv[1], MAX_N) : 0;
    const int steps = argc == 3 ? argument(argv[2], 1000000) : 0;
    if (n == 0 || steps == 0) {
        if (rank == 0) {
            std::fprintf(stderr,
                         "usage: stencil n steps\n"
                         "  n      cells per dimension and rank, 1 to %d\n"
                         "  steps  Jacobi and conjugate gradient steps, at least 1\n",
                         MAX_N);
        }
        MPI_Finalize();
        return 2;
    }

    Grid grid = make_grid(n);
    Vector f = grid.vector();
    make_source(n, grid.cells, grid.cell.data(), grid.coords, f.data());
    Vector jacobi = solve_jacobi(grid, f, steps);
    Vector cg = solve_cg(grid, f, steps);

    // Both methods must have converged as fast as theory promises. The eigenvalues of A lie in
    // [SHIFT, 12 + SHIFT]; a Jacobi step shrinks the residual by 6 / DIAGONAL or more.
    const double start = std::sqrt(dot_global(grid, f, f));
    const double jacobi_residual = residual_norm(grid, f, jacobi) / start;
    const double cg_residual = residual_norm(grid, f, cg) / start;
    const double root_condition = std::sqrt((12.0 + SHIFT) / SHIFT);
    const double cg_rate = (root_condition - 1.0) / (root_condition + 1.0);
    const double rounding = 1e-11;
    const double balance = balance_error(grid, cg);
    const bool correct = balance <= rounding &&
                         jacobi_residual <= std::pow(6.0 / DIAGONAL, steps) * (1.0 + 1e-9) + rounding &&
                         cg_residual <= 2.0 * root_condition * std::pow(cg_rate, steps) + rounding;
    if (rank == 0) {
        std::printf("stencil: %d ranks (%d x %d x %d), n = %d, steps = %d\n", grid.ranks, grid.dims[0], grid.dims[1],
                    grid.dims[2], n, steps);
        std::printf("relative residual: jacobi %.9e, cg %.9e; balance %.1e\n", jacobi_residual, cg_residual, balance);
        std::printf("verification: %s\n", correct ? "passed" : "FAILED");
    }
    MPI_Comm_free(&grid.comm);
    MPI_Finalize();
    return correct ? 0 : 1;
}
