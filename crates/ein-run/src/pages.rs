//! How the system is to hold memory: a file with `unsafe` code, because it is told by address.
#![allow(unsafe_code)]

/// Asks for large pages under memory that nothing is stored in yet, where the system has some to give: what is read from
/// end to end in every run, as weights are, then costs fewer look-ups of addresses. Nothing else changes.
pub(crate) fn large(memory: &mut [u64]) {
    /// What pages begin at multiples of, at least; the system takes large ones of what lies between.
    const PAGE: usize = 4096;
    #[cfg(target_os = "linux")]
    {
        let skip = memory.as_ptr().align_offset(PAGE).min(memory.len());
        let memory = &mut memory[skip..];
        let bytes = size_of_val(memory) / PAGE * PAGE;
        if bytes > 0 {
            // SAFETY: the pages are this slice's alone, which is borrowed mutably; the advice changes no byte of them. What
            // is answered does not matter: without large pages there are others.
            let _ = unsafe { libc::madvise(memory.as_mut_ptr().cast(), bytes, libc::MADV_HUGEPAGE) };
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (memory, PAGE);
}

/// Gives back to the system what was asked for and is free again: what planning and loading needed is no memory of the runs
/// that follow. Only where the allocator has such a call.
pub(crate) fn give_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it frees pages that nothing allocated lies in, whichever thread asks; what it answers does not matter.
    let _ = unsafe { libc::malloc_trim(0) };
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_is_in_use_stays() {
        let kept: Vec<Vec<usize>> = (0..1000).map(|n| vec![n; 100 + n]).collect();
        drop((0..1000).map(|n| vec![n; 100 + n]).collect::<Vec<_>>());
        super::give_back();
        assert!(kept.iter().enumerate().all(|(n, list)| *list == vec![n; 100 + n]));
    }

    #[test]
    fn memory_is_as_it_was() {
        for words in [0, 1, 511, 1025, 1 << 20] {
            let mut memory: Vec<u64> = (0..words).collect();
            super::large(&mut memory);
            assert!(memory.iter().zip(0..).all(|(&word, n)| word == n));
        }
    }
}
