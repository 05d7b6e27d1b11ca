// Follows runtime.cpp: what instrumented modules touch, a bit for each byte that is watched, for reads, for
// writes, and for atomics.
namespace {

enum : uint64_t { PAGE_BITS = 15 };  // A page of the shadow: 4096 bytes of it, for 32 KiB of memory.

uint64_t watched, watched_bytes;
unsigned char *shadow[3], *dirty[3];
uint32_t* pages[3];
uint64_t page_count[3];

void mark(int written, uint64_t page) {
  if (dirty[written][page]) return;
  dirty[written][page] = 1;
  pages[written][page_count[written]++] = (uint32_t)page;
}

// Of each byte: the launch and the block that read it and that wrote it last. Blocks of a launch are ordered by nothing.
uint32_t* owner[2];
uint32_t launch_number;
enum : uint32_t { MANY = 0xffff };

__attribute__((noinline)) void conflict(int written, uint64_t at, const char* done) {
  // What atomics order is not known here: what they touch, and what is read after one, is left alone.
  if (shadow[2][at >> 3] >> (at & 7) & 1 || (!written && block_synchronized)) return;
  fail("race: thread (%u, %u, %u) of block (%u, %u, %u) %s what another block of the same launch %s, at %p", threadIdx.x,
       threadIdx.y, threadIdx.z, blockIdx.x, blockIdx.y, blockIdx.z, written ? "writes" : "reads", done,
       (void*)(watched + at));
  stop();
}

inline void own(int written, uint64_t at, unsigned bytes) {
  uint32_t launch = launch_number << 16, tag = launch | block_tag;
  uint32_t *r = owner[0] + at, *w = owner[1] + at;
  for (unsigned i = 0; i < bytes; i++) {
    bool read_by_other = (r[i] ^ tag) - 1 < 0xffff, written_by_other = (w[i] ^ tag) - 1 < 0xffff;
    if (written_by_other) conflict(written, at + i, "writes");
    if (written && read_by_other) conflict(written, at + i, "reads");
    if (written)
      w[i] = tag;
    else
      r[i] = read_by_other ? launch | MANY : tag;
  }
}

inline void note(int written, const void* p, unsigned bytes) {
  uint64_t at = (uint64_t)p - watched;
  if (at >= watched_bytes) return;
  if (written < 2 && owner[1]) own(written, at, bytes);
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

// What an atomic protects is taken to be within 32 bytes of it, as in a record with a lock: all of that is marked.
void note_atomic(const void* p) { note_range(2, (const void*)((uint64_t)p & ~(uint64_t)31), 32); }

int by_number(const void* a, const void* b) {
  uint32_t x = *(const uint32_t*)a, y = *(const uint32_t*)b;
  return x < y ? -1 : x > y;
}

void next_launch() {
  if (++launch_number < 0xffff) return;
  // All numbers were used: what is left of earlier launches is forgotten.
  launch_number = 1;
  for (int w = 0; w < 2 && owner[w]; w++) madvise(owner[w], watched_bytes * sizeof(uint32_t), MADV_DONTNEED);
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
  for (int w = 0; w < 3 && !shadow[w]; w++) {
    shadow[w] = (unsigned char*)reserve((bytes >> 3) + 4096);
    dirty[w] = (unsigned char*)reserve(count);
    pages[w] = (uint32_t*)reserve(count * sizeof(uint32_t));
    if (!shadow[w] || !dirty[w] || !pages[w]) return 1;
  }
  for (int w = 0; w < 2 && !owner[w]; w++) owner[w] = (uint32_t*)reserve(bytes * sizeof(uint32_t));
  if (!owner[0]) owner[1] = 0;  // Without so many addresses blocks are not told apart.
  watched = base;
  watched_bytes = bytes;
  return 0;
}

// Tells the ranges, relative to the watched one, that were read (0), written (1) or used by atomics (2) since the last call, in order.
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
  SHOWN void __tsan_volatile_read##N(void* p) { note_atomic(p), note(0, p, N); }    \
  SHOWN void __tsan_volatile_write##N(void* p) { note_atomic(p), note(1, p, N); }   \
  SHOWN void __tsan_read_write##N(void* p) { note(0, p, N), note(1, p, N); }
HOOK(1)
HOOK(2)
HOOK(4)
HOOK(8)
HOOK(16)
SHOWN void __tsan_read_range(void* p, unsigned long n) { note_range(0, p, n); }
SHOWN void __tsan_write_range(void* p, unsigned long n) { note_range(1, p, n); }
SHOWN void ein_shim_atomic(const void* p, unsigned) {
  block_synchronized = true;
  note_atomic(p);
}
SHOWN void __tsan_init() {}
SHOWN void __tsan_func_entry(void*) {}
SHOWN void __tsan_func_exit() {}
}
