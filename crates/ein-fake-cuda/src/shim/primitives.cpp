// Follows runtime.cpp: barriers, operations of a warp, asynchronous copies.
extern "C" {

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
    open_named(id);
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
