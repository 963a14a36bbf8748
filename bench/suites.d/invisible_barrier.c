// The barrier that ThreadSanitizer's tests use to bring about an order of execution without a
// happens-before: its accesses are not instrumented, and it calls nothing but usleep.
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif
#define INVISIBLE __attribute__((no_sanitize("thread"), visibility("default")))

INVISIBLE void __tsan_testonly_barrier_init(unsigned *barrier, unsigned count) { *barrier = count << 16; }

INVISIBLE void __tsan_testonly_barrier_wait(unsigned *barrier) {
  unsigned old, now, count;
  __asm__ volatile("movl %1, %0" : "=r"(old) : "m"(*barrier) : "memory");
  count = old >> 16;
  old = 1;
  __asm__ volatile("lock xaddl %0, %1" : "+r"(old), "+m"(*barrier) : : "memory");
  // The round ends when the number of arrivals is a multiple of the count.
  unsigned round = (old & 0xffff) / count;
  do {
    __asm__ volatile("movl %1, %0" : "=r"(now) : "m"(*barrier) : "memory");
    if ((now & 0xffff) / count != round)
      return;
    usleep(100);
  } while (1);
}

#ifdef __cplusplus
}
#endif
