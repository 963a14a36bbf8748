// As much of SQLite's interface as the two programs use, with nothing behind it. bench/rules takes the real one.
#include <stdlib.h>

typedef struct sqlite3 { int statements; } sqlite3;
typedef struct sqlite3_stmt { int steps; } sqlite3_stmt;
enum { SQLITE_OK = 0, SQLITE_ROW = 100, SQLITE_DONE = 101 };

static inline int sqlite3_open(const char *name, sqlite3 **database) {
    (void)name;
    *database = calloc(1, sizeof **database);
    return SQLITE_OK;
}

static inline int sqlite3_prepare_v2(sqlite3 *database, const char *text, int length, sqlite3_stmt **statement,
                                     const char **rest) {
    (void)database, (void)text, (void)length, (void)rest;
    *statement = calloc(1, sizeof **statement);
    return SQLITE_OK;
}

static inline int sqlite3_bind_int(sqlite3_stmt *statement, int column, int value) {
    (void)statement, (void)column, (void)value;
    return SQLITE_OK;
}

static inline int sqlite3_step(sqlite3_stmt *statement) {
    (void)statement;
    return SQLITE_ROW;
}

static inline int sqlite3_column_int(sqlite3_stmt *statement, int column) {
    (void)statement, (void)column;
    return 7;
}

static inline int sqlite3_finalize(sqlite3_stmt *statement) {
    (void)statement;
    return SQLITE_OK;
}

static inline int sqlite3_close(sqlite3 *database) {
    (void)database;
    return SQLITE_OK;
}
