//! Free memory that glibc keeps instead of returning it to the system. With other C libraries nothing is done.

/// Arenas at least: threads that allocate at the same time wait for each other in one.
const MIN_ARENAS: usize = 4;

/// From this length on, bytes, an allocation has pages of its own, which are returned when it is freed. It is where glibc begins.
const MIN_MAPPED_BYTES: usize = 128 << 10;

/// Sets how glibc allocates; must be called before there are threads. Variables of the environment (mallopt(3)) come first.
///
/// The arenas are bounded to one for each processor: glibc makes eight for each, and every one keeps some 2 MB that its threads have
/// freed: with two processors and many viewers, 38 of 62 MB were free (measured). Segments and other long allocations have pages of their
/// own: glibc raises the length from which they do to that of each one that is freed, up to 32 MB, and then they are in the arenas with small blocks between them.
/// Small blocks that are freed are joined with their neighbours at once: kept apart as they are by default, they divide the memory that a scan
/// of the library leaves free, 1 MB with 10,000 files (measured).
pub fn configure_allocator() {
    let is_unset = |name: &str| std::env::var_os(name).is_none();
    if is_unset("MALLOC_ARENA_MAX") {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        set_parameter(Parameter::Arenas, processors.max(MIN_ARENAS));
    }
    if is_unset("MALLOC_MMAP_THRESHOLD_") {
        set_parameter(Parameter::MinMapped, MIN_MAPPED_BYTES);
    }
    set_parameter(Parameter::MaxFast, 0);
}

/// Parameters of malloc.h.
#[derive(Clone, Copy)]
enum Parameter {
    /// `M_ARENA_MAX`.
    Arenas = -8,
    /// `M_MMAP_THRESHOLD`.
    MinMapped = -3,
    /// `M_MXFAST`.
    MaxFast = 1,
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn set_parameter(parameter: Parameter, value: usize) {
    unsafe extern "C" {
        safe fn mallopt(parameter: i32, value: i32) -> i32;
    }
    mallopt(parameter as i32, i32::try_from(value).unwrap_or(i32::MAX));
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn set_parameter(_parameter: Parameter, _value: usize) {}

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
