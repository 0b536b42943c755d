/* A library with thread-local data of the kind that must stand in the loader's reserve. */
static _Thread_local char data[64] __attribute__((tls_model("initial-exec")));

char *own_data(void) { return data; }
