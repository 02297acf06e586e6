/* Ranks write one HDF5 file together and check what the others wrote.
 *
 *   parallel_hdf5 FILE
 *
 * Each rank owns a band of rows of three datasets: contiguous and written collectively, contiguous and written independently row by row,
 * chunked and written by columns through a strided selection. Each then reads its neighbour's band. The file's bytes depend on nothing
 * but the number of ranks: objects carry no times.
 */
#include <hdf5.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS_PER_RANK = 48, COLUMNS = 4096 };

static int rank, ranks;

static void need(int ok, const char *what) {
    if (!ok) {
        fprintf(stderr, "rank %d: %s\n", rank, what);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static int value(int dataset, int row, int column) { return dataset * 100000007 + row * 5003 + column * 7; }

static void fill(int *rows, int dataset, int owner) {
    for (int i = 0; i < ROWS_PER_RANK; i++)
        for (int j = 0; j < COLUMNS; j++)
            rows[i * COLUMNS + j] = value(dataset, owner * ROWS_PER_RANK + i, j);
}

static hid_t make(hid_t file, const char *name, int chunked) {
    hsize_t size[2] = {(hsize_t)ranks * ROWS_PER_RANK, COLUMNS}, chunk[2] = {ROWS_PER_RANK / 2, 512};
    hid_t space = H5Screate_simple(2, size, NULL), how = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_obj_track_times(how, 0);
    if (chunked)
        H5Pset_chunk(how, 2, chunk);
    hid_t dataset = H5Dcreate2(file, name, H5T_STD_I32LE, space, H5P_DEFAULT, how, H5P_DEFAULT);
    need(dataset >= 0, "a dataset cannot be made");
    H5Pclose(how);
    H5Sclose(space);
    return dataset;
}

/* Writes or reads `count` rows from `row` on, columns `column`, `column + step`, ... */
static void move(hid_t dataset, int write, H5FD_mpio_xfer_t how, int row, int count, int column, int step, int *rows) {
    hsize_t start[2] = {(hsize_t)row, (hsize_t)column}, stride[2] = {1, (hsize_t)step};
    hsize_t number[2] = {(hsize_t)count, (hsize_t)(COLUMNS / step)};
    hsize_t mine[2] = {(hsize_t)count, COLUMNS}, from[2] = {0, (hsize_t)column};
    hid_t space = H5Dget_space(dataset), memory = H5Screate_simple(2, mine, NULL), list = H5Pcreate(H5P_DATASET_XFER);
    H5Sselect_hyperslab(space, H5S_SELECT_SET, start, stride, number, NULL);
    H5Sselect_hyperslab(memory, H5S_SELECT_SET, from, stride, number, NULL);
    H5Pset_dxpl_mpio(list, how);
    herr_t done = write ? H5Dwrite(dataset, H5T_NATIVE_INT, memory, space, list, rows)
                        : H5Dread(dataset, H5T_NATIVE_INT, memory, space, list, rows);
    need(done >= 0, write ? "a write failed" : "a read failed");
    H5Pclose(list);
    H5Sclose(memory);
    H5Sclose(space);
}

static hid_t open_together(const char *path, int make_it) {
    hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL);
    hid_t file = make_it ? H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, access) : H5Fopen(path, H5F_ACC_RDONLY, access);
    need(file >= 0, "the file cannot be opened");
    H5Pclose(access);
    return file;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    need(argc == 2, "usage: parallel_hdf5 FILE");
    const char *names[3] = {"collective", "independent", "chunked"};
    int *rows = malloc(sizeof(int) * ROWS_PER_RANK * COLUMNS), *found = malloc(sizeof(int) * ROWS_PER_RANK * COLUMNS);
    need(rows && found, "no memory");
    int first = rank * ROWS_PER_RANK;

    hid_t file = open_together(argv[1], 1);
    for (int d = 0; d < 3; d++) {
        hid_t dataset = make(file, names[d], d == 2);
        fill(rows, d, rank);
        if (d == 0)
            move(dataset, 1, H5FD_MPIO_COLLECTIVE, first, ROWS_PER_RANK, 0, 1, rows);
        for (int i = 0; d == 1 && i < ROWS_PER_RANK; i++)
            move(dataset, 1, H5FD_MPIO_INDEPENDENT, first + i, 1, 0, 1, rows + i * COLUMNS);
        for (int column = 0; d == 2 && column < 4; column++)
            move(dataset, 1, H5FD_MPIO_COLLECTIVE, first, ROWS_PER_RANK, column, 4, rows);
        H5Dclose(dataset);
    }
    need(H5Fclose(file) >= 0, "the file cannot be closed");

    file = open_together(argv[1], 0);
    int neighbour = (rank + 1) % ranks;
    for (int d = 0; d < 3; d++) {
        hid_t dataset = H5Dopen2(file, names[d], H5P_DEFAULT);
        move(dataset, 0, H5FD_MPIO_INDEPENDENT, neighbour * ROWS_PER_RANK, ROWS_PER_RANK, 0, 1, found);
        fill(rows, d, neighbour);
        for (int i = 0; i < ROWS_PER_RANK * COLUMNS; i++)
            need(found[i] == rows[i], "read something else than was written");
        H5Dclose(dataset);
    }
    H5Fclose(file);
    MPI_Finalize();
    return 0;
}
