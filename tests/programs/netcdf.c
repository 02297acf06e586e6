/* Writes time steps into a netCDF file with an unlimited dimension, closing and opening it in between as a simulation that is restarted
 * does, and checks every value.
 *
 *   netcdf FILE classic|64bit|netcdf4
 */
#include <netcdf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 24, Y = 200, X = 250, RESTART_EVERY = 5 };

static void need(int status, const char *what) {
    if (status != NC_NOERR) {
        fprintf(stderr, "%s: %s\n", what, nc_strerror(status));
        exit(1);
    }
}

static float value(int variable, int step, int y, int x) { return (float)(variable * 1000 + step) + (float)y / 256 + (float)x / 65536; }

int main(int argc, char **argv) {
    if (argc != 3)
        return 2;
    int mode = strcmp(argv[2], "netcdf4") == 0 ? NC_NETCDF4 : strcmp(argv[2], "64bit") == 0 ? NC_64BIT_OFFSET : 0;
    int file, dimensions[3], variables[2];
    static float field[Y][X];
    need(nc_create(argv[1], NC_CLOBBER | mode, &file), "create");
    need(nc_def_dim(file, "time", NC_UNLIMITED, &dimensions[0]), "dimension");
    need(nc_def_dim(file, "y", Y, &dimensions[1]), "dimension");
    need(nc_def_dim(file, "x", X, &dimensions[2]), "dimension");
    need(nc_def_var(file, "pressure", NC_FLOAT, 3, dimensions, &variables[0]), "variable");
    need(nc_def_var(file, "temperature", NC_FLOAT, 3, dimensions, &variables[1]), "variable");
    need(nc_enddef(file), "enddef");
    for (int step = 0; step < STEPS; step++) {
        for (int v = 0; v < 2; v++) {
            size_t start[3] = {(size_t)step, 0, 0}, count[3] = {1, Y, X};
            for (int y = 0; y < Y; y++)
                for (int x = 0; x < X; x++)
                    field[y][x] = value(v, step, y, x);
            need(nc_put_vara_float(file, variables[v], start, count, &field[0][0]), "write");
        }
        if (step % RESTART_EVERY == 0) {
            need(nc_close(file), "close");
            need(nc_open(argv[1], NC_WRITE, &file), "open");
        }
    }
    need(nc_close(file), "close");
    need(nc_open(argv[1], NC_NOWRITE, &file), "open");
    for (int step = STEPS - 1; step >= 0; step--)
        for (int v = 0; v < 2; v++) {
            size_t start[3] = {(size_t)step, 0, 0}, count[3] = {1, Y, X};
            need(nc_get_vara_float(file, variables[v], start, count, &field[0][0]), "read");
            for (int y = 0; y < Y; y++)
                for (int x = 0; x < X; x++)
                    if (field[y][x] != value(v, step, y, x)) {
                        fprintf(stderr, "step %d, variable %d, (%d, %d) is not what was written\n", step, v, y, x);
                        return 1;
                    }
        }
    need(nc_close(file), "close");
    return 0;
}
