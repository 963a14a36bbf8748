// Four threads that write into one in-memory database each and into a shared one in turns.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include "sqlite3.h"

static sqlite3 *database;
static int rows;

static void *writes(void *argument) {
    for (int i = 0; i < rows; i++) {
        char *text = sqlite3_mprintf("insert into t values(%d, %d, 'row %d')", i, (int)(long)argument, i);
        if (sqlite3_exec(database, text, 0, 0, 0) != SQLITE_OK)
            abort();
        sqlite3_free(text);
    }
    return 0;
}

int main(int count, char **words) {
    rows = count > 1 ? atoi(words[1]) : 200;
    sqlite3_config(SQLITE_CONFIG_SERIALIZED);
    sqlite3_open(":memory:", &database);
    sqlite3_exec(database, "create table t(a, b, c); create index i on t(a)", 0, 0, 0);
    pthread_t threads[4];
    for (long i = 0; i < 4; i++)
        pthread_create(&threads[i], 0, writes, (void *)i);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], 0);
    sqlite3_stmt *statement;
    sqlite3_prepare_v2(database, "select count(*) from t", -1, &statement, 0);
    sqlite3_step(statement);
    printf("%d\n", sqlite3_column_int(statement, 0));
    return 0;
}
