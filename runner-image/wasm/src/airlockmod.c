/*
 * The module _airlock and what the host calls.
 *
 * The host gives three functions: they carry whole frame bodies, without the
 * length that precedes them on a stream. airlock_init returns with everything
 * a job needs loaded, and no frame of WebAssembly is live then, so that the
 * host can copy the memory and start jobs from the copy with airlock_run.
 */
#define Py_BUILD_CORE 1
#include <Python.h>
#include <internal/pycore_parking_lot.h>

#define HOST(name) __attribute__((import_module("airlock"), import_name(#name)))
#define GUEST(name) __attribute__((export_name(#name)))

/* Returns 0, or -1 when the host takes no more frames. */
HOST(send) int32_t host_send(const char *frame, int32_t length);
/* Returns the next frame's length, -1 after the time, -2 at the end. */
HOST(wait) int32_t host_wait(int64_t microseconds);
/* Copies the frame that wait announced, and returns how much it copied. */
HOST(take) int32_t host_take(char *frame, int32_t length);

enum { TIMED_OUT = -1, CLOSED = -2, MAX_FRAME = 8 * 1024 * 1024 };
/* What run.py exits with when the conversation fails. */
enum { NO_WORKER = 70 };

static PyObject *closed(void)
{
    PyErr_SetString(PyExc_ConnectionError, "the channel to the worker is closed");
    return NULL;
}

static PyObject *py_send(PyObject *self, PyObject *frame)
{
    Py_buffer view;
    if (PyObject_GetBuffer(frame, &view, PyBUF_SIMPLE) < 0)
        return NULL;
    int32_t failed = 0;
    if (view.len > MAX_FRAME)
        PyErr_Format(PyExc_ValueError, "a frame of %zd bytes; it may have %d", view.len, MAX_FRAME);
    else
        failed = host_send(view.buf, (int32_t)view.len);
    PyBuffer_Release(&view);
    if (failed)
        return closed();
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

static PyObject *py_wait(PyObject *self, PyObject *microseconds)
{
    long long time = PyLong_AsLongLong(microseconds);
    if (time == -1 && PyErr_Occurred())
        return NULL;
    int32_t length = host_wait(time);
    return length == CLOSED ? closed() : PyLong_FromLong(length);
}

static PyObject *py_take(PyObject *self, PyObject *length)
{
    long wanted = PyLong_AsLong(length);
    if (wanted == -1 && PyErr_Occurred())
        return NULL;
    if (wanted < 0 || wanted > MAX_FRAME)
        return PyErr_Format(PyExc_ValueError, "a frame of %ld bytes; it may have %d", wanted, MAX_FRAME);
    PyObject *frame = PyBytes_FromStringAndSize(NULL, wanted);
    if (!frame)
        return NULL;
    if (host_take(PyBytes_AS_STRING(frame), (int32_t)wanted) == wanted)
        return frame;
    Py_DECREF(frame);
    PyErr_SetString(PyExc_ConnectionError, "the host gave another frame than it announced");
    return NULL;
}

static PyMethodDef methods[] = {
    {"send", py_send, METH_O, "send(frame): gives the worker one frame, or raises ConnectionError."},
    {"wait", py_wait, METH_O, "wait(microseconds): returns the next frame's length, or -1 after that time; "
                              "a negative time has no end. Raises ConnectionError when no frame will come."},
    {"take", py_take, METH_O, "take(length): returns the frame of which wait returned the length."},
    {NULL},
};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_airlock", "The channel to the worker.", 0, methods};

static PyObject *init_module(void)
{
    return PyModule_Create(&module);
}

static int deadlocked(void *unused)
{
    PyErr_SetString(PyExc_RuntimeError, "deadlock: this waits for a lock, an event or a queue, and there is no other "
                                        "thread in the wasm backend that could end the wait");
    return -1;
}

/*
 * Stands in for what puts a thread to sleep until another wakes it. There is
 * no other, so that the original would be asked again for ever.
 */
int __wrap__PyParkingLot_Park(const void *address, const void *expected, size_t size, PyTime_t nanoseconds,
                              void *argument, int detach)
{
    if (nanoseconds < 0) {
        Py_AddPendingCall(deadlocked, NULL); /* which the caller makes when it was interrupted */
        return Py_PARK_INTR;
    }
    struct timespec time = {nanoseconds / 1000000000, nanoseconds % 1000000000};
    nanosleep(&time, NULL);
    return Py_PARK_TIMEOUT;
}

/* Calls a function of the boot module and returns its int. */
static int call_boot(const char *name)
{
    PyObject *boot = PyImport_ImportModule("airlock_boot");
    PyObject *result = boot ? PyObject_CallMethod(boot, name, NULL) : NULL;
    int code = result ? PyLong_AsInt(result) : -1;
    Py_XDECREF(result);
    Py_XDECREF(boot);
    if (!PyErr_Occurred())
        return code;
    PyErr_Print(); /* of SystemExit it makes an exit with its code */
    return NO_WORKER;
}

static PyStatus configure(PyConfig *config)
{
    static wchar_t *const search[] = {L"/py/stdlib.zip", L"/guest"};
    static wchar_t *home = L"/py";
    wchar_t **const homes[] = {&config->home, &config->prefix, &config->exec_prefix, &config->base_prefix,
                               &config->base_exec_prefix};
    config->site_import = 0;
    config->write_bytecode = 0;
    config->pathconfig_warnings = 0;
    config->install_signal_handlers = 0;
    config->module_search_paths_set = 1;
    PyStatus status = PyConfig_SetString(config, &config->program_name, L"python");
    for (size_t i = 0; !PyStatus_Exception(status) && i < Py_ARRAY_LENGTH(homes); i++)
        status = PyConfig_SetString(config, homes[i], home);
    for (size_t i = 0; !PyStatus_Exception(status) && i < Py_ARRAY_LENGTH(search); i++)
        status = PyWideStringList_Append(&config->module_search_paths, search[i]);
    return status;
}

static PyStatus start(void)
{
    PyPreConfig encoding;
    PyPreConfig_InitIsolatedConfig(&encoding);
    encoding.utf8_mode = 1; /* or names of files would be ASCII */
    PyStatus status = Py_PreInitialize(&encoding);
    if (PyStatus_Exception(status))
        return status;
    PyConfig config;
    PyConfig_InitIsolatedConfig(&config);
    status = configure(&config);
    if (!PyStatus_Exception(status))
        status = Py_InitializeFromConfig(&config);
    PyConfig_Clear(&config);
    return status;
}

/* Starts the interpreter and loads all that a job needs; 0 when it is ready. */
GUEST(airlock_init) int32_t airlock_init(void)
{
    if (PyImport_AppendInittab("_airlock", init_module) < 0)
        return NO_WORKER;
    PyStatus status = start();
    if (PyStatus_Exception(status)) {
        fprintf(stderr, "airlock: python does not start: %s: are /py and /guest there?\n", status.err_msg);
        return NO_WORKER;
    }
    return call_boot("init");
}

/* Runs one job in this memory, which must not be used again; returns the exit code. */
GUEST(airlock_run) int32_t airlock_run(void)
{
    int code = Py_IsInitialized() ? call_boot("run") : NO_WORKER;
    fflush(NULL);
    return code;
}
