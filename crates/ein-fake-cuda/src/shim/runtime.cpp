// Runs the threads of a block on one thread of the host, in lock-step between barriers.
//
// A worker is a stack on which the threads of a block run one after the other, until one has to wait: then the next runs
// on another worker. So kernels without barriers need one worker and no switch at all. The caller lets one launch run at
// a time in the whole process.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

struct uint3 {
  unsigned x, y, z;
};
#define SHOWN __attribute__((visibility("default")))
extern "C" {
SHOWN uint3 threadIdx, blockIdx, blockDim, gridDim;
}

namespace {

enum : int { STACK = 128 << 10, GUARD = 64 << 10, MOST = 1024, PENDING = 64, DYNAMIC = 227 << 10, CANARY = 256 };

struct Worker {
  void* stack_pointer;
  ucontext_t* context;
  unsigned char* stack;
  Worker* next;
};

void note_range(int written, const void* p, uint64_t bytes);
bool some_bulk();
void begin_bulk(uint64_t seed);
void end_bulk();
unsigned place_of(const void* p);
void next_launch();

// Of the block that runs: its number, and whether it used an atomic.
unsigned block_tag;
bool block_synchronized;

enum State : unsigned char { FRESH, RUNNING, BARRIER, WARP, PHASE, DONE };

struct Phases;

struct Copy {
  void* to;
  const void* from;
  unsigned bytes, group;
};

struct Thread {
  uint3 index;
  State state;
  int line;
  unsigned barrier, mask;
  int vote, answer;
  Worker* worker;
  unsigned group, copies;
  const Phases* phases;
};

struct Named {
  unsigned arrived, expected;
  int line;
};

struct Group {
  unsigned mask, arrived, expected;
  int line;
  void (*op)(void**, unsigned);
  void* lanes[32];
};

Worker workers[MOST];
Worker* idle;
unsigned made;
// Where given-up stacks are left from, and who runs.
Worker scheduler, nowhere, *active;

Thread threads[MOST];
Copy copies[MOST][PENDING];
// Of each warp: the operations that lanes wait for, and how many of the places have been used.
Group groups[MOST / 32][33];
unsigned used[MOST / 32];
Named barriers[16];
unsigned queue[MOST], queue_begin, queue_length;
unsigned count, started, finished, current, stride;
void (*entry)(void**);
void** arguments;
bool failed, running;
char* message;
unsigned message_size;
// The dynamic shared memory of the launch.
unsigned char* dynamic_begin;
unsigned dynamic_bytes;

void fail(const char* format, ...) {
  if (failed) return;
  failed = true;
  va_list list;
  va_start(list, format);
  vsnprintf(message, message_size, format, list);
  va_end(list);
}

#if defined(__x86_64__)
extern "C" void ein_shim_switch(void** from, void* to);
asm(".text\n.globl ein_shim_switch\n.hidden ein_shim_switch\n.type ein_shim_switch,@function\nein_shim_switch:\n"
    "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
    "  movq %rsp, (%rdi)\n  movq %rsi, %rsp\n"
    "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n  ret\n"
    ".size ein_shim_switch,.-ein_shim_switch\n");
void change(Worker* from, Worker* to) {
  active = to;
  ein_shim_switch(&from->stack_pointer, to->stack_pointer);
}
void prepare(Worker* w, void (*main)()) {
  void** top = (void**)(w->stack + STACK);
  // As after a call: 8 below a multiple of 16.
  *--top = 0;
  *--top = (void*)main;
  for (int i = 0; i < 6; i++) *--top = 0;
  w->stack_pointer = top;
}
#else
ucontext_t contexts[MOST + 2];
void change(Worker* from, Worker* to) {
  active = to;
  swapcontext(from->context, to->context);
}
void prepare(Worker* w, void (*main)()) {
  getcontext(w->context);
  w->context->uc_stack.ss_sp = w->stack;
  w->context->uc_stack.ss_size = STACK;
  w->context->uc_link = 0;
  makecontext(w->context, main, 0);
}
#endif

void load(unsigned t) {
  current = t;
  threadIdx = threads[t].index;
}

void worker_main();

Worker* worker() {
  Worker* w = idle;
  if (w) {
    idle = w->next;
  } else {
    w = &workers[made];
    unsigned char* memory = (unsigned char*)mmap(0, STACK + GUARD, PROT_READ | PROT_WRITE,
                                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return 0;
    mprotect(memory, GUARD, PROT_NONE);
    w->stack = memory + GUARD;
#if !defined(__x86_64__)
    w->context = &contexts[made];
#endif
    made++;
  }
  prepare(w, worker_main);
  return w;
}

// Goes on with whatever can: a thread that was released, a thread that has not begun, or the scheduler.
void proceed(Worker* from) {
  while (!failed && !queue_length && started == count && finished < count && some_bulk()) {
  }
  if (failed) {
    change(from, &scheduler);
  } else if (queue_length) {
    unsigned t = queue[queue_begin];
    queue_begin = (queue_begin + 1) % MOST;
    queue_length--;
    load(t);
    threads[t].state = RUNNING;
    if (threads[t].worker != from) change(from, threads[t].worker);
  } else if (started < count) {
    Worker* w = worker();
    if (!w) fail("no memory for the stack of a thread");
    change(from, w ? w : &scheduler);
  } else {
    change(from, &scheduler);
  }
}

void release(unsigned t) { queue[(queue_begin + queue_length++) % MOST] = t; }

void release_first(unsigned t) {
  queue_begin = (queue_begin + MOST - 1) % MOST;
  queue_length++;
  queue[queue_begin] = t;
}

// Releases the block's barrier when all threads that have not exited wait at it.
void settle() {
  Named* b = &barriers[0];
  if (!b->arrived || b->arrived + finished < count) return;
  int sum = 0, all = 1, any = 0;
  for (unsigned t = 0; t < count; t++)
    if (threads[t].state == BARRIER && threads[t].barrier == 0) {
      sum += threads[t].vote;
      all &= threads[t].vote;
      any |= threads[t].vote;
    }
  for (unsigned t = 0; t < count; t++)
    if (threads[t].state == BARRIER && threads[t].barrier == 0) {
      threads[t].answer = threads[t].answer == 0 ? sum : threads[t].answer == 1 ? all : any;
      threads[t].state = RUNNING;
      release(t);
    }
  b->arrived = 0;
}

// Lets all go on that wait at a named barrier.
void open_named(unsigned id) {
  for (unsigned t = 0; t < count; t++)
    if (threads[t].state == BARRIER && threads[t].barrier == id) {
      threads[t].state = RUNNING;
      release(t);
    }
  barriers[id].arrived = 0;
}

void worker_main() {
  // Threads of a block begin in an order that differs from block to block, so that what is right in one only shows.
  Worker* self = active;
  while (!failed && started < count) {
    unsigned t = (unsigned)((uint64_t)started++ * stride % count);
    load(t);
    threads[t].state = RUNNING;
    entry(arguments);
    Thread* me = &threads[current];
    if (me->copies && !failed)
      fail("thread (%u, %u, %u) exits before it waited for its asynchronous copies", threadIdx.x, threadIdx.y,
           threadIdx.z);
    me->state = DONE;
    finished++;
    if (barriers[0].arrived) settle();
    if (queue_length) break;
  }
  self->next = idle;
  idle = self;
  proceed(self);
  __builtin_trap();
}

void wait() {
  unsigned t = current;
  threads[t].worker = active;
  proceed(active);
  load(t);
}

void stop() {
  proceed(active);
  __builtin_trap();
}

void deadlock() {
  char text[400];
  unsigned at = 0, shown = 0;
  for (unsigned t = 0; t < count && shown < 4 && at < sizeof text - 120; t++) {
    Thread* a = &threads[t];
    if (a->state != BARRIER && a->state != WARP && a->state != PHASE) continue;
    // One of each place is enough.
    bool seen = false;
    for (unsigned s = 0; s < t && !seen; s++)
      seen = threads[s].state == a->state && threads[s].line == a->line && threads[s].mask == a->mask;
    if (seen) continue;
    if (a->state == PHASE)
      at += (unsigned)snprintf(text + at, sizeof text - at,
                               "%sthread %u waits for the phase of parity %u of the barrier at byte %u of line %d",
                               shown ? ", " : "", t, a->mask, place_of(a->phases), a->line);
    else if (a->state == BARRIER)
      at += (unsigned)snprintf(text + at, sizeof text - at, "%sthread %u waits at barrier %u of line %d",
                               shown ? ", " : "", t, a->barrier, a->line);
    else
      at += (unsigned)snprintf(text + at, sizeof text - at, "%sthread %u waits for lanes %08x of its warp at line %d",
                               shown ? ", " : "", t, a->mask, a->line);
    shown++;
  }
  fail("divergent barriers: %s; %u of %u threads have exited", text, finished, count);
}

struct sigaction before_segv, before_bus;

void fault_on_stack() {
  // On the stack of the thread that did it, which is given up.
  change(&nowhere, &scheduler);
  __builtin_trap();
}

void on_fault(int signal, siginfo_t* info, void* context) {
#if defined(__x86_64__)
  if (running) {
    ucontext_t* c = (ucontext_t*)context;
    unsigned char *at = (unsigned char*)info->si_addr, *sp = (unsigned char*)c->uc_mcontext.gregs[REG_RSP];
    Worker* w = 0;
    for (unsigned i = 0; i < made; i++)
      if (sp >= workers[i].stack - GUARD && sp <= workers[i].stack + STACK) w = &workers[i];
    if (w) {
      uint3 t = threadIdx, b = blockIdx;
      bool deep = at >= w->stack - GUARD && at < w->stack;
      const char* what = deep ? "needs more stack than it has" : "touches memory that is not allocated";
      fail("thread (%u, %u, %u) of block (%u, %u, %u) %s, at %p", t.x, t.y, t.z, b.x, b.y, b.z, what, (void*)at);
      c->uc_mcontext.gregs[REG_RSP] = (long long)(w->stack + STACK - 72);
      c->uc_mcontext.gregs[REG_RIP] = (long long)fault_on_stack;
      return;
    }
  }
#endif
  struct sigaction* old = signal == SIGSEGV ? &before_segv : &before_bus;
  if (old->sa_flags & SA_SIGINFO) {
    old->sa_sigaction(signal, info, context);
  } else if (old->sa_handler != SIG_IGN && old->sa_handler != SIG_DFL) {
    old->sa_handler(signal);
  } else {
    sigaction(signal, old, 0);
  }
}

void watch() {
  static bool watching;
  if (watching) return;
  watching = true;
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  sigaction(SIGSEGV, &action, &before_segv);
  sigaction(SIGBUS, &action, &before_bus);
}

unsigned divisor(unsigned a, unsigned b) { return b ? divisor(b, a % b) : a; }

void give_back_all() {
  // After a failure threads are left in the middle: all workers are free again.
  idle = 0;
  for (unsigned w = 0; w < made; w++) {
    workers[w].next = idle;
    idle = &workers[w];
  }
}

}  // namespace

struct ein_shim_kernel {
  void (*entry)(void**);
  unsigned char *shared_begin, *shared_end, *common_begin, *common_end, *dynamic;
  unsigned parameters;
  const unsigned* sizes;
};

extern "C" {

// Runs one launch; 0, or 1 with a message.
SHOWN int ein_shim_launch(const ein_shim_kernel* kernel, void** args, const unsigned* grid, const unsigned* block,
                          unsigned shared, uint64_t seed, char* text, unsigned text_size) {
  watch();
  next_launch();
  message = text;
  message_size = text_size;
  failed = false;
  entry = kernel->entry;
  arguments = args;
  count = block[0] * block[1] * block[2];
  dynamic_begin = kernel->dynamic;
  dynamic_bytes = shared;
  blockDim = {block[0], block[1], block[2]};
  gridDim = {grid[0], grid[1], grid[2]};
#if !defined(__x86_64__)
  scheduler.context = &contexts[MOST];
  nowhere.context = &contexts[MOST + 1];
#endif
  for (unsigned t = 0; t < count; t++)
    threads[t].index = {t % block[0], t / block[0] % block[1], t / block[0] / block[1]};
  size_t own = (size_t)(kernel->shared_end - kernel->shared_begin);
  size_t common = (size_t)(kernel->common_end - kernel->common_begin);
  uint64_t blocks = (uint64_t)grid[0] * grid[1] * grid[2];
  for (uint64_t n = 0; n < blocks && !failed; n++) {
    blockIdx = {(unsigned)(n % grid[0]), (unsigned)(n / grid[0] % grid[1]), (unsigned)(n / grid[0] / grid[1])};
    // What is in shared memory at a block's begin is undefined: it is all ones, NaN in every format.
    if (own) memset(kernel->shared_begin, 255, own);
    if (common) memset(kernel->common_begin, 255, common);
    if (shared) memset(kernel->dynamic, 255, shared);
    memset(kernel->dynamic + shared, 0xa5, CANARY);
    block_tag = (unsigned)(n % 0xfffe) + 1;
    block_synchronized = false;
    started = finished = queue_begin = queue_length = 0;
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    stride = 1;
    if ((seed >> 40) % 3 == 1) stride = count > 1 ? count - 1 : 1;
    if ((seed >> 40) % 3 == 2) {
      stride = (unsigned)((seed >> 33) % count) | 1;
      if (divisor(stride, count) != 1) stride = 1;
    }
    for (unsigned t = 0; t < count; t++) {
      threads[t].state = FRESH;
      threads[t].worker = 0;
      threads[t].group = threads[t].copies = 0;
    }
    for (unsigned w = 0; w < (count + 31) / 32; w++) {
      used[w] = 0;
      for (unsigned l = 0; l <= 32; l++) groups[w][l].arrived = 0;
    }
    memset(barriers, 0, sizeof barriers);
    begin_bulk(seed);
    while (!failed && finished < count) {
      unsigned was = started, done = finished;
      running = true;
      Worker* w = 0;
      if (started < count) {
        w = worker();
        if (!w) fail("no memory for the stack of a thread");
      }
      if (w) change(&scheduler, w);
      running = false;
      if (!failed && finished < count && was == started && done == finished) deadlock();
    }
    if (!failed) end_bulk();
    for (unsigned i = 0; i < CANARY && !failed; i++)
      if (kernel->dynamic[shared + i] != 0xa5)
        fail("block (%u, %u, %u) writes behind its %u bytes of dynamic shared memory, at byte %u", blockIdx.x, blockIdx.y,
             blockIdx.z, shared, shared + i);
  }
  if (failed) give_back_all();
  return failed;
}
}
