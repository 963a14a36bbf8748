//! Rights that one thread at a time has, each with a program that looks alike and does not keep to it.

use super::orders::{check, check_file};

#[test]
fn one_unit_goes_round_between_semaphores() {
    check(
        "#include <semaphore.h>
         static sem_t there, back;
         static int value;
         static void *worker(void *unused) {
             for (int i = 0; i < 3; i++) { sem_wait(&there); value++; sem_post(&back); }
             return unused;
         }
         int main(void) {
             pthread_t thread;
             sem_init(&there, 0, 0);
             sem_init(&back, 0, 0);
             pthread_create(&thread, 0, worker, 0);
             for (int i = 0; i < 3; i++) { value++; sem_post(&there); sem_wait(&back); }
             pthread_join(thread, 0);
         }",
        "sem_init(&back, 0, 0)",
        "sem_init(&back, 0, 1)",
    );
}

#[test]
fn a_semaphore_of_system_v_with_one_unit_is_a_lock() {
    check(
        "#include <sys/ipc.h>
         #include <sys/sem.h>
         static int semaphore, count;
         static void change(int by) {
             struct sembuf act = {0, (short)by, 0};
             semop(semaphore, &act, 1);
         }
         static void *add(void *arg) { change(-1); count++; change(1); return arg; }
         int main(void) {
             pthread_t threads[2];
             semaphore = semget(IPC_PRIVATE, 1, 0600);
             change(1);
             for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, add, 0);
             for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
         }",
        "(short)by, 0}",
        "(short)by, IPC_NOWAIT}",
    );
}

const CLAIM: &str = "
    static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
    static int taken, value;
    static void claim(void) {
        pthread_mutex_lock(&m);
        int mine = !taken;
        taken = 1;
        pthread_mutex_unlock(&m);
        if (mine) value++;
    }
    static void *worker(void *unused) { claim(); return unused; }
    int main(void) {
        pthread_t thread;
        pthread_create(&thread, 0, worker, 0);
        claim();
        pthread_join(thread, 0);
    }";

#[test]
fn the_first_to_set_a_flag_is_alone() {
    check(CLAIM, "if (mine)", "if (!mine)");
}

#[test]
fn a_flag_that_anybody_resets_says_nothing() {
    check(CLAIM, "claim(); return", "claim(); taken = 0; return");
}

#[test]
fn a_flag_that_is_tested_and_set_in_two_steps_says_nothing() {
    let two_steps = "int mine = !taken; pthread_mutex_unlock(&m); pthread_mutex_lock(&m);";
    check(CLAIM, "int mine = !taken;", two_steps);
}

const EXCHANGE: &str = "
    #include <stdatomic.h>
    static atomic_int busy;
    static int value;
    static void *add(void *unused) {
        while (atomic_exchange(&busy, 1)) {}
        value++;
        atomic_store(&busy, 0);
        return unused;
    }
    int main(void) {
        pthread_t threads[2];
        for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, add, 0);
        for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    }";

#[test]
fn an_exchange_in_a_loop_is_a_lock() {
    check(
        EXCHANGE,
        "atomic_store(&busy, 0);",
        "atomic_store(&busy, 0); value++;",
    );
}

#[test]
fn a_lock_that_is_released_without_an_order_protects_nothing() {
    let relaxed = "atomic_store_explicit(&busy, 0, memory_order_relaxed);";
    check(EXCHANGE, "atomic_store(&busy, 0);", relaxed);
}

const TURNS: &str = "
    static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
    static int state, buffer;
    static void await(int wanted) {
        for (int seen = !wanted; seen != wanted;) {
            pthread_mutex_lock(&m);
            seen = state;
            pthread_mutex_unlock(&m);
        }
    }
    static void set(int next) {
        pthread_mutex_lock(&m);
        state = next;
        pthread_mutex_unlock(&m);
    }
    static void *consumer(void *unused) {
        for (int i = 0; i < 3; i++) { await(1); buffer--; set(0); }
        return unused;
    }
    int main(void) {
        pthread_t thread;
        pthread_create(&thread, 0, consumer, 0);
        for (int i = 0; i < 3; i++) { await(0); buffer++; set(1); }
        pthread_join(thread, 0);
    }";

#[test]
fn a_variable_says_whose_turn_it_is() {
    check(TURNS, "set(0); }", "set(0); buffer--; }");
}

#[test]
fn threads_that_wait_for_the_same_value_are_not_alone() {
    check(TURNS, "await(1)", "await(0)");
}

#[test]
fn the_last_owner_destroys_what_the_others_have_given_up() {
    check_file(
        "program.cpp",
        "#include <memory>
         #include <thread>
         struct Object { int value = 1; ~Object() { value = 0; } };
         int main() {
             auto object = std::make_shared<Object>();
             std::thread user([object] { if (object->value != 1) __builtin_trap(); });
             object.reset();
             user.join();
         }",
        "[object]",
        "[object = object.get()]",
    );
}
