//! The files that libraries, drivers and fonts need. Nothing here may contain media, accounts or settings of the server, so
//! home and `/usr/share` are not allowed as a whole.

use std::fs;
use std::path::{Path, PathBuf};

/// Library folders, with those of Nix and Guix, and the loader's cache.
const LIBRARIES: &str = "/lib /lib64 /usr/lib /usr/lib64 /usr/local/lib /usr/local/lib64 /nix/store /gnu/store \
    /run/opengl-driver /etc/ld.so.cache";

/// Configuration of fontconfig, drivers and time zones.
const CONFIGURATION: &str = "/etc/fonts /var/cache/fontconfig /etc/drirc /etc/libva.conf /etc/OpenCL /etc/vulkan /etc/glvnd \
    /etc/egl /etc/nvidia /etc/localtime";

/// Folders beneath `/usr/share` and others of `XDG_DATA_DIRS`.
const SHARED: &str = "fonts fontconfig drirc.d libdrm glvnd vulkan egl nvidia gstreamer-1.0 ffmpeg glib-2.0 mime locale \
    zoneinfo";

/// Folders and files of fontconfig beneath the home folder.
const HOME: &str = ".fonts .fonts.conf .fontconfig .config/fontconfig .cache/fontconfig .local/share/fonts";

/// Variables that name files or folders, separated by colons.
const VARIABLES: &str = "FONTCONFIG_FILE FONTCONFIG_PATH LD_LIBRARY_PATH LIBVA_DRIVERS_PATH OCL_ICD_VENDORS GST_REGISTRY \
    GST_PLUGIN_SYSTEM_PATH_1_0 GST_PLUGIN_SYSTEM_PATH GST_PLUGIN_PATH_1_0 GST_PLUGIN_PATH";

/// Facts about processors and memory nodes, by which encoders choose their threads.
const SYSTEM: &str = "/sys/devices/system/cpu /sys/devices/system/node";

/// Devices without state.
const HARMLESS_DEVICES: &str = "/dev/null /dev/zero /dev/random /dev/urandom";

/// Beginnings of the names of graphics and video devices in `/dev`.
const DEVICE_PREFIXES: [&str; 5] = ["dri", "dma_heap", "nvidia", "video", "media"];

/// Files and folders by what may be done with them and all beneath them. Those that do not exist are passed over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct AllowedPaths {
    /// May be read and listed.
    pub readable: Vec<PathBuf>,
    /// May be read, written and controlled by ioctl.
    pub devices: Vec<PathBuf>,
    /// May be executed.
    pub executable: Vec<PathBuf>,
}

impl AllowedPaths {
    /// The paths of this machine, for any process that decodes and encodes.
    pub fn of_machine() -> Self {
        let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let home = variable("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
        let split = |name: &str| -> Vec<PathBuf> {
            variable(name).map(|list| std::env::split_paths(&list).collect()).unwrap_or_default()
        };
        let mut readable: Vec<PathBuf> = VARIABLES.split(' ').flat_map(split).collect();
        let mut data_folders = split("XDG_DATA_DIRS");
        data_folders.extend(["/usr/share", "/usr/local/share"].map(PathBuf::from));
        readable.extend(data_folders.iter().flat_map(|folder| SHARED.split(' ').map(|name| folder.join(name))));
        readable.extend(variable("XDG_CACHE_HOME").map(|folder| Path::new(&folder).join("fontconfig")));
        readable.extend(loader_folders(Path::new("/etc/ld.so.conf.d")));
        readable.retain(|path| is_narrow(path, home.as_deref()));
        readable.extend(home.iter().flat_map(|home| HOME.split(' ').map(|name| home.join(name))));
        readable.extend([LIBRARIES, CONFIGURATION, SYSTEM].iter().flat_map(|list| list.split(' ')).map(PathBuf::from));
        let mut devices: Vec<PathBuf> = HARMLESS_DEVICES.split(' ').map(PathBuf::from).collect();
        for device in device_files(Path::new("/dev")) {
            if device.ends_with("dri") {
                readable.extend(graphics_card_folders(Path::new("/sys/class/drm")));
            } else if device.ends_with("nvidiactl") {
                readable.push("/proc/driver/nvidia".into());
            }
            devices.push(device);
        }
        Self { readable, devices, executable: Vec::new() }
    }
}

/// Whether a path from a variable or a configuration file may be allowed: not the root, and nothing that contains the home
/// folder.
fn is_narrow(path: &Path, home: Option<&Path>) -> bool {
    let contains_home = home.is_some_and(|home| home.starts_with(path));
    path.is_absolute() && path.parent().is_some() && !contains_home
}

/// Folders of libraries that the system's loader is configured with.
fn loader_folders(configuration: &Path) -> Vec<PathBuf> {
    /// Largest file read, bytes.
    const MAX_BYTES: u64 = 64 << 10;
    let entries = fs::read_dir(configuration).into_iter().flatten().flatten();
    let files = entries.filter(|entry| entry.metadata().is_ok_and(|metadata| metadata.len() <= MAX_BYTES));
    #[allow(clippy::disallowed_methods, reason = "the configuration of the system's loader")]
    let texts = files.filter_map(|entry| fs::read_to_string(entry.path()).ok());
    let is_path = |line: &&str| line.starts_with('/');
    texts.flat_map(|text| text.lines().map(str::trim).filter(is_path).map(PathBuf::from).collect::<Vec<_>>()).collect()
}

/// The graphics and video devices of the machine.
fn device_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let is_device = |name: &str| DEVICE_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    entries.filter(|entry| entry.file_name().to_str().is_some_and(is_device)).map(|entry| entry.path()).collect()
}

/// Where drivers read the kind of each graphics card, and the folders by which they find it.
fn graphics_card_folders(class: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(class).into_iter().flatten().flatten();
    let cards = entries.filter_map(|entry| fs::canonicalize(entry.path().join("device")).ok());
    cards.chain([class.to_owned(), "/sys/dev/char".into()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_allowed_folder_contains_media_or_accounts() {
        let paths = AllowedPaths::of_machine();
        let home = std::env::var_os("HOME").map_or_else(|| "/root".into(), PathBuf::from);
        let private = [home, "/etc/passwd".into(), "/usr/share/media".into(), "/proc/1".into(), "/tmp/media".into()];
        for private in private {
            let allowed = paths.readable.iter().chain(&paths.devices).find(|path| private.starts_with(path));
            assert_eq!(allowed, None, "{}", private.display());
        }
        assert!(paths.readable.iter().any(|path| path.ends_with("fonts")) && paths.executable.is_empty());
    }

    #[test]
    fn variables_cannot_open_the_root_or_the_home_folder() {
        let home = Some(Path::new("/home/a"));
        let narrow = ["/opt/gstreamer", "/home/a/plugins"];
        let wide = ["/", "/home", "/home/a", "/home/a/", "relative", ""];
        assert!(narrow.iter().all(|path| is_narrow(Path::new(path), home)));
        assert!(!wide.iter().any(|path| is_narrow(Path::new(path), home)));
    }

    #[test]
    fn folders_of_the_loader_are_read_line_by_line() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.conf"), "# a comment\n/opt/lib\n  /opt/more\ninclude x\n").unwrap();
        assert_eq!(loader_folders(folder.path()), ["/opt/lib", "/opt/more"].map(PathBuf::from));
        assert!(loader_folders(&folder.path().join("missing")).is_empty());
    }
}
