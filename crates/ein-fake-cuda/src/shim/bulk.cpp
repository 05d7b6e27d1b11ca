// Follows primitives.cpp: barriers of phases (`mbarrier`), and copies of boxes of tensors that they wait for.
//
// Copies are done, one at a time in an order of their own, when nothing else goes on; until then their destination is
// poisoned, so that who reads too early, or still reads what is overwritten, shows.
namespace {

enum : unsigned { MADE = 0x5a, COPIES = 256, MAP = 0x50414d, PHASE_BYTES = (1u << 20) - 1 };

struct Phases {
  uint64_t count : 12, pending : 12, made : 8;
  int64_t bytes : 31;
  uint64_t phase : 1;
};

// A tensor as the fake driver describes it, in the 128 bytes of the real one's.
struct Map {
  uint64_t magic, address, rank, element, swizzle, extents[5], strides[4];
  uint16_t box[8];
};
static_assert(sizeof(Phases) == 8 && sizeof(Map) == 128, "sizes of what they stand for");

struct Bulk {
  Map map;
  unsigned char* to;
  Phases* barrier;
  int at[5];
};
Bulk bulks[COPIES];
unsigned bulk_count;
uint64_t bulk_chance;

unsigned place_of(const void* p) { return (unsigned)((const unsigned char*)p - dynamic_begin); }

bool is_shared(const void* p, uint64_t bytes) {
  return (const unsigned char*)p >= dynamic_begin && (uint64_t)place_of(p) + bytes <= dynamic_bytes;
}

Phases* phases(int line, void* at) {
  Phases* b = (Phases*)at;
  if (!is_shared(at, 8) || place_of(at) % 8 || b->made != MADE) {
    fail("line %d: no barrier of phases was made at byte %u of dynamic shared memory", line, place_of(at));
    stop();
  }
  return b;
}

// Ends the phase if all that it waits for is there; whether somebody has waited for that.
bool turn(Phases* b) {
  if (b->pending || b->bytes) return false;
  b->phase ^= 1;
  b->pending = b->count;
  bool waited = false;
  for (unsigned t = 0; t < count; t++)
    if (threads[t].state == PHASE && threads[t].phases == b) {
      threads[t].state = RUNNING;
      release_first(t);
      waited = true;
    }
  return waited;
}

void do_bulk(unsigned n) {
  Bulk c = bulks[n];
  bulks[n] = bulks[--bulk_count];
  const Map& m = c.map;
  uint64_t bytes = m.element;
  for (unsigned r = 0; r < m.rank; r++) bytes *= m.box[r];
  unsigned inner = m.box[0] * (unsigned)m.element;
  for (uint64_t line = 0; line < bytes / inner; line++) {
    uint64_t rest = line;
    const unsigned char* from = (const unsigned char*)m.address;
    bool inside = true;
    for (unsigned r = 1; r < m.rank; r++) {
      int64_t own = (int64_t)c.at[r] + (int64_t)(rest % m.box[r]);
      rest /= m.box[r];
      inside &= own >= 0 && own < (int64_t)m.extents[r];
      from += own * (int64_t)m.strides[r - 1];
    }
    for (unsigned e = 0; e < m.box[0]; e++) {
      int64_t own = (int64_t)c.at[0] + e;
      uint64_t place = line * inner + e * m.element;
      // Words of 16 bytes are at places that follow from addresses, not from the box.
      uint64_t to = place_of(c.to) + place;
      if (m.swizzle == 3) to ^= to >> 3 & 0x70;
      unsigned char* out = dynamic_begin + to;
      if (inside && own >= 0 && own < (int64_t)m.extents[0]) {
        note_range(0, from + own * (int64_t)m.element, m.element);
        memcpy(out, from + own * (int64_t)m.element, m.element);
      } else {
        memset(out, 0, m.element);
      }
    }
  }
  c.barrier->bytes -= (int64_t)bytes;
  turn(c.barrier);
}

// Does one of the copies that are under way, if there is one.
bool some_bulk() {
  if (!bulk_count) return false;
  bulk_chance = bulk_chance * 6364136223846793005u + 1442695040888963407u;
  do_bulk((unsigned)((bulk_chance >> 33) % bulk_count));
  return true;
}

void begin_bulk(uint64_t seed) { bulk_count = 0, bulk_chance = seed; }

// What a block leaves.
void end_bulk() {
  if (bulk_count) fail("a block ends while %u of its bulk copies are under way", bulk_count);
  for (unsigned n = 1; n < 16; n++)
    if (barriers[n].arrived) fail("a block ends while %u threads have arrived at barrier %u", barriers[n].arrived, n);
}

}  // namespace

extern "C" {

SHOWN void ein_shim_phases_make(int line, void* at, unsigned expected) {
  if (!is_shared(at, 8) || place_of(at) % 8 || expected == 0 || expected >= 4096) {
    fail("line %d: a barrier of phases for %u arrivals at byte %u of dynamic shared memory", line, expected, place_of(at));
    stop();
  }
  *(Phases*)at = Phases{expected, expected, MADE, 0, 0};
}

// Arrives, and has the phase wait for so many bytes.
SHOWN void ein_shim_phases_arrive(int line, void* at, unsigned bytes) {
  Phases* b = phases(line, at);
  if (b->pending == 0 || b->bytes + (int64_t)bytes > PHASE_BYTES) {
    fail("line %d: the barrier of phases at byte %u of dynamic shared memory has %s", line, place_of(at),
         b->pending ? "more bytes to wait for than it can count" : "all arrivals already");
    stop();
  }
  b->bytes += bytes;
  b->pending--;
  if (!turn(b)) return;
  // Who has waited goes on at once, before this thread and others do what they should have done before.
  release(current);
  wait();
}

// Waits until the phase of this parity is over.
SHOWN void ein_shim_phases_wait(int line, void* at, unsigned parity) {
  Phases* b = phases(line, at);
  Thread* me = &threads[current];
  // Who is late finds the phase after the next, which has the same parity, and goes on waiting.
  while (b->phase == parity) {
    me->state = PHASE;
    me->line = line;
    me->phases = b;
    me->mask = parity;
    wait();
  }
}

SHOWN void ein_shim_bulk_copy(int line, const void* map, void* to, void* barrier, int c0, int c1, int c2, int c3) {
  const Map* m = (const Map*)map;
  if ((uint64_t)map % 64 || m->magic != MAP || m->rank != 4) {
    fail("line %d: a bulk copy by what is no map of a tensor of four axes", line);
    stop();
  }
  uint64_t bytes = m->element;
  for (unsigned r = 0; r < 4; r++) bytes *= m->box[r];
  if (!is_shared(to, bytes) || place_of(to) % 128) {
    fail("line %d: a bulk copy of %u bytes to byte %u of dynamic shared memory, which has %u", line, (unsigned)bytes,
         place_of(to), dynamic_bytes);
    stop();
  }
  if (bulk_count == COPIES) {
    fail("line %d: more than %u bulk copies are under way", line, (unsigned)COPIES);
    stop();
  }
  memset(to, 255, bytes);
  bulks[bulk_count++] = {*m, (unsigned char*)to, phases(line, barrier), {c0, c1, c2, c3, 0}};
}

// Arrives at a named barrier and goes on: `bar.arrive`.
SHOWN void ein_shim_named_arrive(int line, unsigned id, unsigned expected) {
  Named* b = &barriers[id];
  if (id == 0 || id >= 16 || expected == 0 || expected % 32 || (b->arrived && b->expected != expected)) {
    fail("line %d: an arrival at barrier %u for %u threads", line, id, expected);
    stop();
  }
  b->line = line;
  b->expected = expected;
  b->arrived++;
  if (b->arrived == expected) open_named(id);
}
}
