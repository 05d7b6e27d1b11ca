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

enum State : unsigned char { FRESH, RUNNING, BARRIER, WARP, DONE };

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
    if (a->state != BARRIER && a->state != WARP) continue;
    // One of each place is enough.
    bool seen = false;
    for (unsigned s = 0; s < t && !seen; s++)
      seen = threads[s].state == a->state && threads[s].line == a->line && threads[s].mask == a->mask;
    if (seen) continue;
    if (a->state == BARRIER)
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
  message = text;
  message_size = text_size;
  failed = false;
  entry = kernel->entry;
  arguments = args;
  count = block[0] * block[1] * block[2];
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
    for (unsigned i = 0; i < CANARY && !failed; i++)
      if (kernel->dynamic[shared + i] != 0xa5)
        fail("block (%u, %u, %u) writes behind its %u bytes of dynamic shared memory, at byte %u", blockIdx.x, blockIdx.y,
             blockIdx.z, shared, shared + i);
  }
  if (failed) give_back_all();
  return failed;
}

SHOWN void ein_shim_named_barrier(int line, unsigned id, unsigned expected) {
  Thread* me = &threads[current];
  if (id >= 16 || (id && (expected == 0 || expected % 32))) {
    fail("line %d: barrier %u for %u threads", line, id, expected);
    stop();
  }
  Named* b = &barriers[id];
  if (b->arrived && b->line != line && id == 0) {
    fail("divergent barriers: some threads wait at the barrier of line %d, thread (%u, %u, %u) at that of line %d", b->line,
         threadIdx.x, threadIdx.y, threadIdx.z, line);
    stop();
  }
  if (b->arrived && id && b->expected != expected) {
    fail("line %d: barrier %u for %u threads is one for %u threads elsewhere", line, id, expected, b->expected);
    stop();
  }
  b->line = line;
  b->expected = expected;
  b->arrived++;
  me->line = line;
  me->barrier = id;
  me->mask = 0;
  me->state = BARRIER;
  if (id == 0) {
    settle();
  } else if (b->arrived == expected) {
    for (unsigned t = 0; t < count; t++)
      if (threads[t].state == BARRIER && threads[t].barrier == id) {
        threads[t].state = RUNNING;
        release(t);
      }
    b->arrived = 0;
  }
  wait();
}

SHOWN int ein_shim_block_vote(int line, int value, int what) {
  unsigned t = current;
  threads[t].vote = value;
  threads[t].answer = what;
  ein_shim_named_barrier(line, 0, count);
  return threads[t].answer;
}

SHOWN void ein_shim_block_barrier(int line) { ein_shim_block_vote(line, 0, 0); }

SHOWN unsigned ein_shim_lane() { return current % 32; }

SHOWN unsigned ein_shim_alive() {
  unsigned warp = current / 32 * 32, mask = 0;
  for (unsigned l = 0; l < 32 && warp + l < count; l++)
    if (threads[warp + l].state != DONE) mask |= 1u << l;
  return mask;
}

SHOWN void ein_shim_warp_line(int line, void (*op)(void**, unsigned), void* registers, unsigned mask) {
  unsigned warp = current / 32, lane = current % 32, first = warp * 32;
  Thread* me = &threads[current];
  if (!(mask >> lane & 1)) {
    fail("line %d: lane %u takes part in an operation of lanes %08x of its warp", line, lane, mask);
    stop();
  }
  // Lanes that a short last warp does not have take no part.
  unsigned exist = count - first >= 32 ? 0xffffffffu : (1u << (count - first)) - 1;
  // Lanes of disjoint masks may be at different places, and some may wait already for all.
  Group *g = 0, *open = groups[warp];
  for (unsigned seen = 0; seen < used[warp] && !g; seen++) {
    Group* other = &groups[warp][seen];
    if (!other->arrived)
      open = other;
    else if (other->mask == mask)
      g = other;
  }
  if (!g && open->arrived) open = &groups[warp][used[warp]];
  if (!g) {
    g = open;
    if (g == &groups[warp][used[warp]]) used[warp]++;
  }
  if (g->arrived == 0) {
    g->mask = mask;
    g->expected = (unsigned)__builtin_popcount(mask & exist);
    g->line = line;
    g->op = op;
    memset(g->lanes, 0, sizeof g->lanes);
  } else if (g->mask != mask || g->op != op || g->line != line) {
    fail("divergent warp: lanes %08x of warp %u are at line %d, lane %u is at line %d with lanes %08x", g->mask, warp, g->line,
         lane, line, mask);
    stop();
  }
  g->lanes[lane] = registers;
  g->arrived++;
  if (g->arrived == g->expected) {
    g->arrived = 0;
    op(g->lanes, mask);
    for (unsigned l = 0; l < 32; l++)
      if (l != lane && (mask & exist) >> l & 1) {
        threads[first + l].state = RUNNING;
        release(first + l);
      }
    return;
  }
  me->state = WARP;
  me->line = line;
  me->mask = mask;
  wait();
}

SHOWN void ein_shim_copy_async(void* to, const void* from, unsigned bytes) {
  Thread* me = &threads[current];
  if (me->copies == PENDING) {
    fail("a thread has more than %d asynchronous copies under way", PENDING);
    stop();
  }
  memset(to, 255, bytes);
  copies[current][me->copies++] = {to, from, bytes, me->group};
}

SHOWN void ein_shim_copy_commit() { threads[current].group++; }

SHOWN void ein_shim_copy_wait(unsigned pending) {
  Thread* me = &threads[current];
  unsigned kept = 0;
  for (unsigned i = 0; i < me->copies; i++) {
    Copy c = copies[current][i];
    // Group g is among the latest `pending` ones unless that many were committed after it.
    if (c.group < me->group && me->group - c.group > pending) {
      note_range(0, c.from, c.bytes);
      memcpy(c.to, c.from, c.bytes);
    } else {
      copies[current][kept++] = c;
    }
  }
  me->copies = kept;
}

SHOWN void ein_shim_trap(int line, const char* what) {
  fail("line %d: %s in thread (%u, %u, %u) of block (%u, %u, %u)", line, what, threadIdx.x, threadIdx.y, threadIdx.z,
       blockIdx.x, blockIdx.y, blockIdx.z);
  stop();
  __builtin_unreachable();
}

SHOWN long long clock64() {
  static long long ticks;
  return ticks++;
}
}

// ---- What instrumented modules touch: a bit for each byte that is watched, once for reads and once for writes.
namespace {

enum : uint64_t { PAGE_BITS = 15 };  // A page of the shadow: 4096 bytes of it, for 32 KiB of memory.

uint64_t watched, watched_bytes;
unsigned char *shadow[2], *dirty[2];
uint32_t* pages[2];
uint64_t page_count[2];

void mark(int written, uint64_t page) {
  if (dirty[written][page]) return;
  dirty[written][page] = 1;
  pages[written][page_count[written]++] = (uint32_t)page;
}

inline void note(int written, const void* p, unsigned bytes) {
  uint64_t at = (uint64_t)p - watched;
  if (at >= watched_bytes) return;
  uint32_t word, bits = ((1u << bytes) - 1) << (at & 7);
  unsigned char* s = shadow[written] + (at >> 3);
  memcpy(&word, s, 4);
  word |= bits;
  memcpy(s, &word, 4);
  mark(written, at >> PAGE_BITS);
  if ((at + bytes - 1) >> PAGE_BITS != at >> PAGE_BITS) mark(written, (at + bytes - 1) >> PAGE_BITS);
}

void note_range(int written, const void* p, uint64_t bytes) {
  while (bytes > 0) {
    unsigned part = bytes < 16 ? (unsigned)bytes : 16;
    note(written, p, part);
    p = (const char*)p + part;
    bytes -= part;
  }
}

int by_number(const void* a, const void* b) {
  uint32_t x = *(const uint32_t*)a, y = *(const uint32_t*)b;
  return x < y ? -1 : x > y;
}

void* reserve(uint64_t bytes) {
  void* p = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? 0 : p;
}

}  // namespace

extern "C" {

// Watches a range of addresses; 0 if it can.
SHOWN int ein_shim_watch(uint64_t base, uint64_t bytes) {
  uint64_t count = (bytes >> PAGE_BITS) + 2;
  for (int w = 0; w < 2 && !shadow[w]; w++) {
    shadow[w] = (unsigned char*)reserve((bytes >> 3) + 4096);
    dirty[w] = (unsigned char*)reserve(count);
    pages[w] = (uint32_t*)reserve(count * sizeof(uint32_t));
    if (!shadow[w] || !dirty[w] || !pages[w]) return 1;
  }
  watched = base;
  watched_bytes = bytes;
  return 0;
}

// Tells the ranges, relative to the watched one, that were read or written since the last call, in order.
SHOWN void ein_shim_touched(int written, void (*tell)(void*, uint64_t, uint64_t), void* context) {
  qsort(pages[written], page_count[written], sizeof(uint32_t), by_number);
  uint64_t begin = 0, end = 0;
  for (uint64_t i = 0; i < page_count[written]; i++) {
    uint64_t page = pages[written][i];
    uint64_t* words = (uint64_t*)(shadow[written] + page * 4096);
    for (uint64_t w = 0; w < 512; w++) {
      uint64_t bits = words[w], at = (page << PAGE_BITS) + w * 64;
      if (!bits) continue;
      words[w] = 0;
      while (bits) {
        uint64_t skip = (uint64_t)__builtin_ctzll(bits), run = ~(bits >> skip) ? (uint64_t)__builtin_ctzll(~(bits >> skip)) : 64;
        if (at + skip != end) {
          if (end > begin) tell(context, begin, end - begin);
          begin = at + skip;
        }
        end = at + skip + run;
        bits = skip + run >= 64 ? 0 : bits & ~((uint64_t)0) << (skip + run);
      }
    }
    dirty[written][page] = 0;
  }
  if (end > begin) tell(context, begin, end - begin);
  page_count[written] = 0;
}

#define HOOK(N)                                                                     \
  SHOWN void __tsan_read##N(void* p) { note(0, p, N); }                             \
  SHOWN void __tsan_write##N(void* p) { note(1, p, N); }                            \
  SHOWN void __tsan_unaligned_read##N(void* p) { note(0, p, N); }                   \
  SHOWN void __tsan_unaligned_write##N(void* p) { note(1, p, N); }                  \
  SHOWN void __tsan_volatile_read##N(void* p) { note(0, p, N); }                    \
  SHOWN void __tsan_volatile_write##N(void* p) { note(1, p, N); }                   \
  SHOWN void __tsan_read_write##N(void* p) { note(0, p, N), note(1, p, N); }
HOOK(1)
HOOK(2)
HOOK(4)
HOOK(8)
HOOK(16)
SHOWN void __tsan_read_range(void* p, unsigned long n) { note_range(0, p, n); }
SHOWN void __tsan_write_range(void* p, unsigned long n) { note_range(1, p, n); }
SHOWN void __tsan_init() {}
SHOWN void __tsan_func_entry(void*) {}
SHOWN void __tsan_func_exit() {}
}
