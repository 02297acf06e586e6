/* Ranks write and read one shared file through MPI-IO, in one of four ways, and check every byte that they read.
 *
 *   shared_file FILE segmented|strided|collective|view [BLOCKS] [BLOCK_BYTES]
 *
 * segmented   a rank's blocks lie together
 * strided     a rank's blocks lie a block of every other rank apart
 * collective  as strided, with calls that all ranks make together, so that MPI-IO may gather them
 * view        as strided, through a file view, one collective call for all blocks
 *
 * Each rank reads what its neighbour has written. The file's bytes depend on nothing but the arguments.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, ranks;

static void fail(const char *what, int error) {
    char text[MPI_MAX_ERROR_STRING];
    int length = 0;
    if (error != MPI_SUCCESS)
        MPI_Error_string(error, text, &length);
    fprintf(stderr, "rank %d: %s: %.*s\n", rank, what, length, text);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void check(const char *what, int error) {
    if (error != MPI_SUCCESS)
        fail(what, error);
}

/* The bytes of one block: a generator that starts from the writer and the block. */
static void fill(unsigned char *bytes, size_t count, int writer, int block) {
    unsigned long long state = (unsigned long long)writer * 1000003ULL + (unsigned long long)block * 7919ULL + 1;
    for (size_t i = 0; i < count; i++) {
        state = state * 6364136223846793005ULL + 1442695040888963407ULL;
        bytes[i] = (unsigned char)(state >> 56);
    }
}

static void compare(const unsigned char *bytes, size_t count, int writer, int block) {
    unsigned char *expected = malloc(count);
    if (expected == NULL)
        fail("malloc", MPI_SUCCESS);
    fill(expected, count, writer, block);
    if (memcmp(bytes, expected, count) != 0) {
        fprintf(stderr, "rank %d: block %d of rank %d is not what was written\n", rank, block, writer);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    free(expected);
}

static MPI_Offset place(const char *how, int writer, int block, int blocks, int block_bytes) {
    if (strcmp(how, "segmented") == 0)
        return ((MPI_Offset)writer * blocks + block) * block_bytes;
    return ((MPI_Offset)block * ranks + writer) * block_bytes;
}

static void transfer_view(MPI_File file, int owner, unsigned char *bytes, int blocks, int block_bytes, int writing) {
    MPI_Datatype pattern;
    MPI_Status status;
    check("vector", MPI_Type_vector(blocks, block_bytes, block_bytes * ranks, MPI_BYTE, &pattern));
    check("commit", MPI_Type_commit(&pattern));
    check("view", MPI_File_set_view(file, (MPI_Offset)owner * block_bytes, MPI_BYTE, pattern, "native", MPI_INFO_NULL));
    if (writing)
        check("write_all", MPI_File_write_all(file, bytes, blocks * block_bytes, MPI_BYTE, &status));
    else
        check("read_all", MPI_File_read_all(file, bytes, blocks * block_bytes, MPI_BYTE, &status));
    check("free", MPI_Type_free(&pattern));
}

static void transfer_blocks(MPI_File file, const char *how, int owner, unsigned char *bytes, int blocks, int block_bytes, int writing) {
    int together = strcmp(how, "collective") == 0;
    MPI_Status status;
    for (int block = 0; block < blocks; block++) {
        MPI_Offset at = place(how, owner, block, blocks, block_bytes);
        unsigned char *part = bytes + (size_t)block * block_bytes;
        int error;
        if (writing)
            error = together ? MPI_File_write_at_all(file, at, part, block_bytes, MPI_BYTE, &status)
                             : MPI_File_write_at(file, at, part, block_bytes, MPI_BYTE, &status);
        else
            error = together ? MPI_File_read_at_all(file, at, part, block_bytes, MPI_BYTE, &status)
                             : MPI_File_read_at(file, at, part, block_bytes, MPI_BYTE, &status);
        check(writing ? "write" : "read", error);
    }
}

static void transfer(MPI_File file, const char *how, int owner, unsigned char *bytes, int blocks, int block_bytes, int writing) {
    if (strcmp(how, "view") == 0)
        transfer_view(file, owner, bytes, blocks, block_bytes, writing);
    else
        transfer_blocks(file, how, owner, bytes, blocks, block_bytes, writing);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc < 3) {
        if (rank == 0)
            fprintf(stderr, "usage: %s FILE segmented|strided|collective|view [BLOCKS] [BLOCK_BYTES]\n", argv[0]);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    const char *how = argv[2];
    int blocks = argc > 3 ? atoi(argv[3]) : 16;
    int block_bytes = argc > 4 ? atoi(argv[4]) : 65536;
    unsigned char *bytes = malloc((size_t)blocks * block_bytes);
    if (blocks <= 0 || block_bytes <= 0 || bytes == NULL)
        fail("bad sizes", MPI_SUCCESS);

    for (int block = 0; block < blocks; block++)
        fill(bytes + (size_t)block * block_bytes, block_bytes, rank, block);
    MPI_File file;
    check("create", MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file));
    transfer(file, how, rank, bytes, blocks, block_bytes, 1);
    check("sync", MPI_File_sync(file));
    check("close", MPI_File_close(&file));

    int neighbour = (rank + 1) % ranks;
    memset(bytes, 0, (size_t)blocks * block_bytes);
    check("open", MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
    MPI_Offset size = 0;
    check("size", MPI_File_get_size(file, &size));
    if (size != (MPI_Offset)ranks * blocks * block_bytes)
        fail("the file has another size", MPI_SUCCESS);
    transfer(file, how, neighbour, bytes, blocks, block_bytes, 0);
    for (int block = 0; block < blocks; block++)
        compare(bytes + (size_t)block * block_bytes, block_bytes, neighbour, block);
    check("close", MPI_File_close(&file));
    free(bytes);
    MPI_Finalize();
    return 0;
}
