//! Free memory that glibc keeps in its arenas instead of returning it to the system. With other C libraries nothing is done.

/// Arenas at least: threads that allocate at the same time wait for each other in one.
const MIN_ARENAS: usize = 4;

/// Bounds the arenas to one for each processor. glibc makes eight for each, and every one keeps some 2 MB that its threads have
/// freed: with two processors and many viewers, 38 of 62 MB were free (measured). Must be called before there are threads.
/// `MALLOC_ARENA_MAX` in the environment comes first.
pub fn limit_arenas() {
    if std::env::var_os("MALLOC_ARENA_MAX").is_some() {
        return;
    }
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    set_max_arenas(processors.max(MIN_ARENAS));
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn set_max_arenas(arenas: usize) {
    /// `M_ARENA_MAX` of malloc.h.
    const M_ARENA_MAX: i32 = -8;

    unsafe extern "C" {
        safe fn mallopt(parameter: i32, value: i32) -> i32;
    }
    mallopt(M_ARENA_MAX, i32::try_from(arenas).unwrap_or(i32::MAX));
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn set_max_arenas(_arenas: usize) {}

/// Returns free memory to the system.
pub fn trim() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        unsafe extern "C" {
            safe fn malloc_trim(pad: usize) -> i32;
        }
        malloc_trim(0);
    }
}
