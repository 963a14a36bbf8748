// The worker may write before main has opened the file: its handle is a constant address.
#include <pthread.h>
#include <stdatomic.h>

struct file {
    _Atomic int is_open;
    _Atomic int written;
};

static struct file log_file;

static struct file *open_file(struct file *file) {
    file->is_open = 1;
    return file;
}

static void write_file(struct file *file, int data) {
    if (file->is_open)
        file->written += data;
}

static int read_file(struct file *file) {
    return file->written;
}

static void close_file(struct file *file) {
    file->is_open = 0;
}

static void *worker(void *arg) {
    write_file(&log_file, 3);
    return arg;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, worker, 0);
    struct file *file = open_file(&log_file);
    pthread_join(thread, 0);
    int read = read_file(file);
    close_file(file);
    return read < 0;
}
