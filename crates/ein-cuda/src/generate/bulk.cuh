
// ==== copies of boxes that no thread does, and barriers of phases (architecture 90 on) ====
//
// A barrier of phases (`mbarrier`) is 8 bytes of shared memory: a phase is over when so many arrivals and all bytes that
// were announced with them are there, and then the next begins. Whoever waits says the parity of the phase that is to be
// over; phases are counted from 0, and "the one before the first" is over from the begin. A box of a tensor of four axes
// comes by one instruction of one thread, swizzled as `wgmma` takes it, and what of it lies outside the tensor is 0 (PTX
// ISA, "cp.async.bulk.tensor"; "mbarrier").

// A tensor, as the driver describes it; always a parameter of a kernel.
struct __align__(64) ein_Map {
    ein_u64 words[16];
};

// What the host does in the place of an instruction, and the instruction.
#ifdef EIN_HOST
#define EIN_BULK(HOST, ...) HOST
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define EIN_BULK(HOST, ...) asm volatile(__VA_ARGS__)
#else
#define EIN_BULK(HOST, ...) __trap()
#endif

// Makes a barrier whose phases are over after so many arrivals. One thread does, and the block's barrier comes after
// `ein_phases_made`.
EIN_FN void ein_phases_make(ein_u64* at, unsigned arrivals) {
    EIN_BULK(ein_shim_phases_make(at, arrivals),
             "mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(ein_shared_address(at)), "r"(arrivals) : "memory");
}

// What was made is there for all, copies included, after this and the block's barrier.
EIN_FN void ein_phases_made() {
    EIN_BULK(, "fence.mbarrier_init.release.cluster;\nfence.proxy.async.shared::cta;" ::: "memory");
}

// Arrives.
EIN_FN void ein_phases_arrive(ein_u64* at) {
    EIN_BULK(ein_shim_phases_arrive(at, 0),
             "mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(ein_shared_address(at)) : "memory");
}

// Arrives, and announces so many bytes.
EIN_FN void ein_phases_expect(ein_u64* at, unsigned bytes) {
    EIN_BULK(ein_shim_phases_arrive(at, bytes),
             "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(ein_shared_address(at)), "r"(bytes) : "memory");
}

// Waits until the phase of this parity is over. The loop is the assembler's, since what the compiler takes for a way that
// threads of a warp go apart on is none that products go on beside.
EIN_FN void ein_phases_wait(ein_u64* at, unsigned parity) {
    EIN_BULK(ein_shim_phases_wait(at, parity),
             "{\n.reg .pred p;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@p bra over;\nbra again;\n"
             "over:\n}" ::"r"(ein_shared_address(at)), "r"(parity) : "memory");
}

// Begins the copy of the box at `from` to shared memory, whose bytes the barrier is to wait for.
EIN_FN void ein_bulk_copy(void* to, const ein_Map& map, ein_u64* at, const int (&from)[4]) {
    EIN_BULK(ein_shim_bulk_copy(&map, to, at, from[0], from[1], from[2], from[3]),
             "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], [%6];"
             ::"r"(ein_shared_address(to)), "l"(&map), "r"(from[0]), "r"(from[1]), "r"(from[2]), "r"(from[3]),
               "r"(ein_shared_address(at)) : "memory");
}

// The barrier `id` of some of a block's threads: waits there until so many have come, or comes and goes on.
EIN_FN void ein_meet(int id, int threads) {
#ifdef EIN_HOST
    ein_shim_barrier(id, threads);
#else
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
#endif
}
EIN_FN void ein_pass(int id, int threads) {
#ifdef EIN_HOST
    ein_shim_arrive(id, threads);
#else
    asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
#endif
}

// Gives registers of a group of four warps back, or takes as many as others gave.
template <int REGISTERS> EIN_FN void ein_fewer_registers() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
#endif
}
template <int REGISTERS> EIN_FN void ein_more_registers() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
#endif
}
