//! Orders that are no locks, each with a program that looks alike and has none.

use super::compiled;
use crate::scan;

const HEAD: &str = "#include <fcntl.h>\n#include <poll.h>\n#include <sys/file.h>\n#include <sys/socket.h>\n#include <unistd.h>\n";

fn count(name: &str, text: &str) -> usize {
    let (program, _) = compiled(name, text);
    scan(&program).candidates.len()
}

/// The program has no candidate, and has some after a part of it was replaced.
pub(super) fn check(text: &str, part: &str, other: &str) {
    check_file("program.c", &format!("{HEAD}{text}"), part, other);
}

pub(super) fn check_file(name: &str, text: &str, part: &str, other: &str) {
    assert_eq!(count(name, text), 0, "a candidate in\n{text}");
    let changed = text.replacen(part, other, 1);
    assert_ne!(changed, text, "{part} is a part of the program");
    assert_ne!(count(name, &changed), 0, "no candidate in\n{changed}");
}

const LAST_USER: &str = "
    struct shared { pthread_mutex_t m; int users; int value; };
    static void *user(void *argument) {
        struct shared *shared = argument;
        pthread_mutex_lock(&shared->m);
        int left = --shared->users;
        pthread_mutex_unlock(&shared->m);
        if (!left) free(shared);
        return 0;
    }
    int main(void) {
        pthread_t threads[2];
        struct shared *shared = malloc(sizeof *shared);
        pthread_mutex_init(&shared->m, 0);
        shared->users = 3;
        for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, user, shared);
        user(shared);
        for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    }";

#[test]
fn the_last_of_all_users_comes_after_the_others() {
    check(LAST_USER, "users = 3", "users = 2");
}

#[test]
fn a_counter_that_is_not_locked_orders_nothing() {
    check(LAST_USER, "pthread_mutex_lock(&shared->m);", "");
}

#[test]
fn whoever_reads_that_both_are_done_comes_after_both() {
    check(
        "static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
         static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
         static int done, one, two;
         static void *signaller(void *argument) {
             *(int *)argument = 1;
             pthread_mutex_lock(&m);
             done++;
             pthread_cond_signal(&c);
             pthread_mutex_unlock(&m);
             return 0;
         }
         int main(void) {
             pthread_t a, b;
             pthread_create(&a, 0, signaller, &one);
             pthread_create(&b, 0, signaller, &two);
             pthread_mutex_lock(&m);
             while (done < 2) pthread_cond_wait(&c, &m);
             pthread_mutex_unlock(&m);
             return one + two;
         }",
        "done < 2",
        "done < 1",
    );
}

#[test]
fn connected_sockets_have_two_directions() {
    check(
        "static int ends[2], question, answer;
         static void *reply(void *arg) {
             char byte;
             if (recv(ends[1], &byte, 1, 0) != 1) return arg;
             answer = question + 1;
             send(ends[1], &byte, 1, 0);
             return 0;
         }
         int main(void) {
             pthread_t thread;
             char byte = 1;
             if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) return 1;
             pthread_create(&thread, 0, reply, 0);
             question = 41;
             if (send(ends[0], &byte, 1, 0) != 1 || recv(ends[0], &byte, 1, 0) != 1) return 1;
             return answer;
         }",
        "recv(ends[0]",
        "recv(ends[1]",
    );
}

#[test]
fn a_pipe_that_is_ready_was_written_to() {
    check(
        "static int ends[2], value;
         static void *give(void *arg) {
             value = 42;
             write(ends[1], \"x\", 1);
             return arg;
         }
         int main(void) {
             pthread_t thread;
             if (pipe(ends)) return 1;
             pthread_create(&thread, 0, give, 0);
             struct pollfd polled = {.fd = ends[0], .events = POLLIN};
             if (poll(&polled, 1, 9) != 1) return 1;
             return value;
         }",
        "!= 1) return 1",
        "< 0) return 1",
    );
}

#[test]
fn a_file_is_locked_by_a_descriptor_of_ones_own() {
    check(
        "static int count, common;
         static void *add(void *arg) {
             int file = open(\"lock\", O_RDWR);
             if (flock(file, LOCK_EX)) return arg;
             count++;
             flock(file, LOCK_UN);
             return 0;
         }
         int main(void) {
             pthread_t threads[2];
             common = open(\"lock\", O_RDWR);
             for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, add, 0);
             for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
         }",
        "int file = open(\"lock\", O_RDWR)",
        "int file = common",
    );
}

#[test]
fn a_number_in_the_own_element_is_an_element_of_ones_own() {
    check(
        "static int array[4];
         static void *worker(void *number) {
             array[*(int *)number]++;
             return 0;
         }
         int main(void) {
             pthread_t threads[4];
             static int numbers[4];
             for (int i = 0; i < 4; i++) numbers[i] = i;
             for (int i = 0; i < 4; i++) pthread_create(&threads[i], 0, worker, &numbers[i]);
             for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
         }",
        "numbers[i] = i",
        "numbers[i] = i / 2",
    );
}

#[test]
fn virtual_functions_are_told_apart_by_their_place_in_the_table() {
    check_file(
        "program.cpp",
        "static int x, y;
         struct Base { virtual void first() { x++; } virtual void second() { y++; } };
         static Base *object;
         static void *run(void *) { object->first(); return 0; }
         int main() {
             pthread_t thread;
             object = new Base;
             pthread_create(&thread, 0, run, 0);
             object->second();
             pthread_join(thread, 0);
         }",
        "object->second()",
        "object->first()",
    );
}

#[test]
fn a_mutex_of_the_cpp_library_is_a_lock() {
    check_file(
        "program.cpp",
        "#include <mutex>
         #include <thread>
         static std::mutex m;
         static int x;
         int main() {
             std::thread thread([] { std::lock_guard<std::mutex> guard(m); x++; });
             { std::lock_guard<std::mutex> guard(m); x++; }
             thread.join();
         }",
        "{ std::lock_guard<std::mutex> guard(m); x++; }\n",
        "{ x++; }\n",
    );
}

#[test]
fn call_once_calls_what_it_was_given() {
    check_file(
        "program.cpp",
        "#include <mutex>
         #include <thread>
         static std::once_flag flag;
         static int x;
         static void set() { x = 1; }
         static void use() { std::call_once(flag, set); if (x != 1) std::terminate(); }
         int main() {
             std::thread one(use), other(use);
             one.join();
             other.join();
         }",
        "std::call_once(flag, set)",
        "set()",
    );
}

const ALL_UNITS: &str = "
    #include <semaphore.h>
    static sem_t done;
    static int results[2];
    static void *one(void *unused) { results[0] = 1; sem_post(&done); return unused; }
    static void *two(void *unused) { results[1] = 1; sem_post(&done); return unused; }
    int main(void) {
        pthread_t a, b;
        sem_init(&done, 0, 0);
        pthread_create(&a, 0, one, 0);
        pthread_create(&b, 0, two, 0);
        for (int i = 0; i < 2; i++) sem_wait(&done);
        return results[0] + results[1];
    }";

#[test]
fn whoever_has_taken_all_units_comes_after_all_who_gave_one() {
    check(ALL_UNITS, "i < 2", "i < 1");
}

#[test]
fn units_that_are_there_from_the_beginning_say_nothing() {
    check(ALL_UNITS, "sem_init(&done, 0, 0)", "sem_init(&done, 0, 1)");
}

#[test]
fn a_byte_that_could_not_be_read_is_not_counted() {
    check(
        "static int ends[2], value;
         static void *give(void *arg) { value = 42; write(ends[1], \"x\", 1); return arg; }
         static void *also(void *arg) { write(ends[1], \"y\", 1); return arg; }
         int main(void) {
             pthread_t a, b;
             char byte;
             if (pipe(ends)) return 1;
             pthread_create(&a, 0, give, 0);
             pthread_create(&b, 0, also, 0);
             for (int i = 0; i < 2; i++) if (read(ends[0], &byte, 1) != 1) return 1;
             return value;
         }",
        "!= 1) return 1;\n             return value",
        "!= 1) continue;\n             return value",
    );
}

#[test]
fn what_an_exception_leaves_undone_is_not_mixed_with_what_was_done() {
    check_file(
        "program.cpp",
        "#include <thread>
         struct Table { int bread; Table(int of) { if (of < 0) throw 1; bread = of; } };
         static const Table &table() { static Table only(3); return only; }
         static int sum;
         int main(int count, char **) {
             std::thread reader([] { if (table().bread != 3) __builtin_trap(); });
             sum = table().bread;
             reader.join();
         }",
        "static Table only(3);",
        "static Table only(3); only.bread++;",
    );
}
