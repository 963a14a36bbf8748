// Processes that `clone` makes with a copy of the memory, while another thread is in the middle of
// something: what it had locked in the original must not stop the copy.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

static atomic_long counter;
static atomic_int stop;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *count(void *arg) {
  while (!atomic_load(&stop))
    atomic_fetch_add(&counter, 1);
  return NULL;
}

static int copy(void *arg) {
  for (int i = 0; i < 100; i++)
    atomic_fetch_add(&counter, 1);
  pthread_mutex_lock(&lock);
  pthread_mutex_unlock(&lock);
  exit(*(int *)arg);
}

int main(void) {
  static char stack[1 << 16] __attribute__((aligned(64)));
  int sum = 0;
  pthread_t thread;
  pthread_create(&thread, NULL, count, NULL);
  for (int i = 0; i < 20; i++) {
    int status = 0;
    pid_t child = clone(copy, stack + sizeof stack, SIGCHLD, &i);
    if (child < 0 || waitpid(child, &status, 0) != child)
      return 1;
    sum += WEXITSTATUS(status);
  }
  atomic_store(&stop, 1);
  pthread_join(thread, NULL);
  printf("%d\n", sum);
}
