//! `descriptorsrc`: the GStreamer element that reads an open file, named by its descriptor and never by a path.
//!
//! It duplicates the descriptor when it starts and closes its copy when it stops. So the owner of the file must keep it
//! open only until the pipeline has reached PAUSED or PLAYING. A pipeline that is still stopping in the background reads its
//! own copy, even after the number that it was given has been closed and reused for another file.
//!
//! The file is as long as it is now, not as it was at the start: what is appended is read, and a file that was shortened
//! ends early. `filesrc` does the same.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use gstreamer as gst;
use gstreamer_base as gst_base;
use gstreamer_base::prelude::*;
use gstreamer_base::subclass::prelude::*;

use super::progress::progress;
use crate::engine::source::{SourceFile, read_full};

/// Name of the element's factory.
const FACTORY_NAME: &str = "descriptorsrc";

/// Scheme of its URIs, `hcfd://NUMBER`.
const URI_SCHEME: &str = "hcfd";

/// The lowest number for a copy: 0 to 2 may be closed, and belong to standard input, output and error.
const MIN_COPY: RawFd = 3;

/// Makes the element known to GStreamer, which must be initialised.
///
/// # Errors
/// When GStreamer refuses it.
pub(super) fn register() -> Result<(), String> {
    let registered = gst::Element::register(None, FACTORY_NAME, gst::Rank::PRIMARY, DescriptorSource::static_type());
    registered.map_err(|cause| format!("{FACTORY_NAME} cannot be registered: {cause}"))
}

/// Sets an element `descriptorsrc` to read this file, which must stay open until the element has started.
pub(super) fn set_source(element: &gst::Element, source: &SourceFile) {
    element.set_property("descriptor", source.file.as_raw_fd());
}

/// The URI by which GStreamer's elements find this file, which must stay open until they have started.
pub(super) fn uri(source: &SourceFile) -> String {
    format_uri(source.file.as_raw_fd())
}

fn format_uri(descriptor: RawFd) -> String {
    format!("{URI_SCHEME}://{descriptor}")
}

/// The descriptor of a URI; None if it has another form.
fn parse_uri(uri: &str) -> Option<RawFd> {
    let number = uri.strip_prefix(URI_SCHEME)?.strip_prefix("://")?;
    let is_plain = number.bytes().all(|byte| byte.is_ascii_digit());
    number.parse().ok().filter(|_| is_plain)
}

glib::wrapper! {
    /// The element as GStreamer's object.
    pub(super) struct DescriptorSource(ObjectSubclass<DescriptorReader>)
        @extends gst_base::BaseSrc, gst::Element, gst::Object,
        @implements gst::URIHandler;
}

/// The state of an element `descriptorsrc`.
#[derive(Debug)]
pub(super) struct DescriptorReader {
    /// The descriptor to copy at the next start; negative if it is unset.
    descriptor: AtomicI32,
    /// The copy, while the element is started.
    file: Mutex<Option<Arc<File>>>,
}

impl Default for DescriptorReader {
    fn default() -> Self {
        Self { descriptor: AtomicI32::new(-1), file: Mutex::new(None) }
    }
}

impl DescriptorReader {
    fn lock_file(&self) -> MutexGuard<'_, Option<Arc<File>>> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file while the element is started. Not locked, so that no call waits for a read of another thread.
    fn file(&self) -> Option<Arc<File>> {
        self.lock_file().clone()
    }

    /// Reports an error on the bus, and ends the stream.
    fn fail(&self, text: &str) -> gst::FlowError {
        self.post_error_message(gst::error_msg!(gst::ResourceError::Read, ("{text}")));
        gst::FlowError::Error
    }
}

/// Opens a copy of a descriptor.
///
/// # Errors
/// If it is not that of an open regular file.
fn duplicate(descriptor: RawFd) -> io::Result<File> {
    if descriptor < 0 {
        return Err(io::Error::other("it is unset"));
    }
    // SAFETY: the number is not negative, and the owner of the file keeps it open during this call. Without an owner the
    // system call fails with EBADF; it touches no memory.
    let borrowed = unsafe { BorrowedFd::borrow_raw(descriptor) };
    let file = File::from(rustix::io::fcntl_dupfd_cloexec(borrowed, MIN_COPY)?);
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is not a regular file")) }
}

#[glib::object_subclass]
impl ObjectSubclass for DescriptorReader {
    const NAME: &'static str = "HearthcastDescriptorSource";
    type Type = DescriptorSource;
    type ParentType = gst_base::BaseSrc;
    type Interfaces = (gst::URIHandler,);
}

impl ObjectImpl for DescriptorReader {
    fn properties() -> &'static [glib::ParamSpec] {
        static PROPERTIES: LazyLock<[glib::ParamSpec; 1]> = LazyLock::new(|| {
            let descriptor = glib::ParamSpecInt::builder("descriptor").minimum(-1).default_value(-1).mutable_ready();
            [descriptor.nick("Descriptor").blurb("Number of the open file, read at the next start").build()]
        });
        &*PROPERTIES
    }

    fn set_property(&self, _id: usize, value: &glib::Value, _spec: &glib::ParamSpec) {
        if let Ok(descriptor) = value.get() {
            self.descriptor.store(descriptor, Ordering::SeqCst);
        }
    }

    fn property(&self, _id: usize, _spec: &glib::ParamSpec) -> glib::Value {
        self.descriptor.load(Ordering::SeqCst).to_value()
    }

    fn constructed(&self) {
        self.parent_constructed();
        let element = self.obj();
        element.set_format(gst::Format::Bytes);
        element.set_dynamic_size(true);
    }
}

impl GstObjectImpl for DescriptorReader {}

impl ElementImpl for DescriptorReader {
    fn metadata() -> Option<&'static gst::subclass::ElementMetadata> {
        static METADATA: LazyLock<gst::subclass::ElementMetadata> = LazyLock::new(|| {
            let description = "Reads an open file by its descriptor";
            gst::subclass::ElementMetadata::new("Descriptor source", "Source/File", description, "Hearthcast")
        });
        Some(&*METADATA)
    }

    fn pad_templates() -> &'static [gst::PadTemplate] {
        static TEMPLATES: LazyLock<Vec<gst::PadTemplate>> = LazyLock::new(|| {
            let any = gst::Caps::new_any();
            let template = gst::PadTemplate::new("src", gst::PadDirection::Src, gst::PadPresence::Always, &any);
            template.into_iter().collect()
        });
        &TEMPLATES
    }
}

impl BaseSrcImpl for DescriptorReader {
    fn start(&self) -> Result<(), gst::ErrorMessage> {
        let descriptor = self.descriptor.load(Ordering::SeqCst);
        let file = duplicate(descriptor).map_err(|cause| {
            gst::error_msg!(gst::ResourceError::OpenRead, ("descriptor {descriptor} cannot be read: {cause}"))
        })?;
        *self.lock_file() = Some(Arc::new(file));
        Ok(())
    }

    fn stop(&self) -> Result<(), gst::ErrorMessage> {
        // Closed without the lock: on a network file system that may block.
        let file = self.lock_file().take();
        drop(file);
        Ok(())
    }

    /// Demuxers may read any range ("pull mode"), because `start` accepts regular files only.
    fn is_seekable(&self) -> bool {
        true
    }

    fn size(&self) -> Option<u64> {
        Some(self.file()?.metadata().ok()?.len())
    }

    fn fill(&self, offset: u64, length: u32, buffer: &mut gst::BufferRef) -> Result<gst::FlowSuccess, gst::FlowError> {
        let file = self.file().ok_or(gst::FlowError::Flushing)?;
        let filled = {
            let mut map = buffer.map_writable().map_err(|_| self.fail("a buffer cannot be written"))?;
            let requested = map.len().min(length as usize);
            let _guard = progress().reading();
            read_full(&file, &mut map[..requested], offset)
                .map_err(|cause| self.fail(&format!("the file could not be read: {cause}")))?
        };
        progress().add(filled as u64);
        buffer.set_size(filled);
        if filled == 0 && length > 0 {
            return Err(gst::FlowError::Eos);
        }
        buffer.set_offset(offset);
        buffer.set_offset_end(offset + filled as u64);
        Ok(gst::FlowSuccess::Ok)
    }
}

impl URIHandlerImpl for DescriptorReader {
    const URI_TYPE: gst::URIType = gst::URIType::Src;

    fn protocols() -> &'static [&'static str] {
        &[URI_SCHEME]
    }

    fn uri(&self) -> Option<String> {
        let descriptor = self.descriptor.load(Ordering::SeqCst);
        (descriptor >= 0).then(|| format_uri(descriptor))
    }

    fn set_uri(&self, uri: &str) -> Result<(), glib::Error> {
        if self.file().is_some() {
            return Err(glib::Error::new(gst::URIError::BadState, "the element is started"));
        }
        let form = || glib::Error::new(gst::URIError::BadUri, "a URI of this element has the form hcfd://NUMBER");
        self.descriptor.store(parse_uri(uri).ok_or_else(form)?, Ordering::SeqCst);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
