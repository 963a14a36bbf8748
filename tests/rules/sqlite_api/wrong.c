// A worker reads the result of a statement that main finalizes meanwhile.
#include <pthread.h>
#include "sqlite3.h"

static sqlite3_stmt *statement;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *reader(void *arg) {
    pthread_mutex_lock(&lock);
    int sum = 0;
    if (sqlite3_step(statement) == SQLITE_ROW)
        sum = sqlite3_column_int(statement, 0);
    pthread_mutex_unlock(&lock);
    return sum == 7 ? arg : 0;
}

int main(void) {
    sqlite3 *database;
    pthread_t thread;
    if (sqlite3_open(":memory:", &database) ||
        sqlite3_prepare_v2(database, "select ?", -1, &statement, 0))
        return 2;
    sqlite3_bind_int(statement, 1, 7);
    pthread_create(&thread, 0, reader, 0);
    pthread_mutex_lock(&lock);
    sqlite3_finalize(statement);
    pthread_mutex_unlock(&lock);
    pthread_join(thread, 0);
    sqlite3_close(database);
    return 0;
}
