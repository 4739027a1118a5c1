//! The element in pipelines: every byte, any range, files that change, descriptors without a file.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

use gstreamer_app as app;

use super::*;
use crate::engine::damaged_films::make_film;
use crate::engine::source::open_in_test;

/// More than an element reads ahead.
const FILE_BYTES: usize = 300_000;

const TIMEOUT: gst::ClockTime = gst::ClockTime::from_seconds(60);

/// A pipeline from the element to `out`.
struct Reader {
    pipeline: gst::Pipeline,
    output: app::AppSink,
}

impl Reader {
    /// A pipeline whose output holds four buffers. `elements` are between the source and the sink.
    fn new(elements: &str) -> Self {
        crate::engine::gst::initialize().unwrap();
        let text = format!("descriptorsrc name=file ! {elements} appsink name=out sync=false max-buffers=4");
        let pipeline = gst::parse::launch(&text).unwrap().downcast::<gst::Pipeline>().unwrap();
        let output = pipeline.by_name("out").unwrap().downcast().unwrap();
        Self { pipeline, output }
    }

    fn source(&self) -> gst::Element {
        self.pipeline.by_name("file").unwrap()
    }

    /// Opens the file and waits for the first buffer.
    fn open(elements: &str, source: &SourceFile) -> Self {
        let reader = Self::new(elements);
        set_source(&reader.source(), source);
        reader.pause().unwrap();
        reader
    }

    fn pause(&self) -> Result<(), gst::StateChangeError> {
        self.pipeline.set_state(gst::State::Paused)?;
        self.pipeline.state(TIMEOUT).0.map(drop)
    }

    /// All bytes up to the end of the stream.
    fn read_to_end(&self) -> Vec<u8> {
        self.pipeline.set_state(gst::State::Playing).unwrap();
        let mut bytes = Vec::new();
        while let Some(sample) = self.output.try_pull_sample(TIMEOUT) {
            bytes.extend_from_slice(&sample.buffer().unwrap().map_readable().unwrap());
        }
        assert!(self.output.is_eos(), "the stream ends");
        bytes
    }

    fn first_error(&self) -> String {
        let message = self.pipeline.bus().unwrap().timed_pop_filtered(TIMEOUT, &[gst::MessageType::Error]).unwrap();
        let gst::MessageView::Error(error) = message.view() else { panic!("an error was requested") };
        error.error().to_string()
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.pipeline.set_state(gst::State::Null).unwrap();
    }
}

/// A file of bytes that differ from their neighbours, and those bytes.
fn make_file(folder: &Path) -> (PathBuf, Vec<u8>) {
    let path = folder.canonicalize().unwrap().join("a.bin");
    let bytes: Vec<u8> = (0..FILE_BYTES).map(|at| (at * 7 + at / 256) as u8).collect();
    std::fs::write(&path, &bytes).unwrap();
    (path, bytes)
}

#[test]
fn every_byte_is_read_once_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let (path, bytes) = make_file(folder.path());
    let before = progress().count();
    let source = open_in_test(&path);
    let reader = Reader::open("", &source);
    assert_eq!(reader.source().property::<i32>("descriptor"), source.file.as_raw_fd());
    assert!(reader.read_to_end() == bytes);
    assert!(progress().count() >= before + FILE_BYTES as u64);
}

#[test]
fn demuxers_read_any_range_and_seek() {
    let folder = tempfile::tempdir().unwrap();
    for (name, demuxer) in [("a.mp4", "qtdemux"), ("a.mkv", "matroskademux")] {
        let path = folder.path().join(name);
        std::fs::write(&path, make_film(name, "", "-pix_fmt yuv420p")).unwrap();
        let reader = Reader::open(&format!("{demuxer} !"), &open_in_test(&path));
        let pad = reader.source().static_pad("src").unwrap();
        assert_eq!(pad.mode(), gst::PadMode::Pull, "{name}");
        let flags = gst::SeekFlags::FLUSH | gst::SeekFlags::KEY_UNIT | gst::SeekFlags::SNAP_BEFORE;
        reader.pipeline.seek_simple(flags, gst::ClockTime::from_mseconds(2100)).unwrap();
        reader.pipeline.set_state(gst::State::Playing).unwrap();
        let sample = reader.output.try_pull_sample(TIMEOUT).unwrap();
        let segment = sample.segment().unwrap().downcast_ref::<gst::ClockTime>().unwrap();
        let time = segment.to_stream_time(sample.buffer().unwrap().pts()).unwrap();
        // There is a keyframe every 0.4 s; matroskademux takes the last but one (filesrc or not, GStreamer 1.22).
        assert!((1500..=2100).contains(&time.mseconds()), "{name}: {time}");
    }
}

#[test]
fn a_file_is_as_long_as_it_is_now() {
    let folder = tempfile::tempdir().unwrap();
    let (path, bytes) = make_file(folder.path());
    let source = open_in_test(&path);
    let reader = Reader::open("", &source);
    OpenOptions::new().append(true).open(&path).unwrap().write_all(&[1; 5000]).unwrap();
    assert!(reader.read_to_end() == [bytes.as_slice(), &[1; 5000]].concat(), "what was appended is read");
    let reader = Reader::open("", &source);
    OpenOptions::new().write(true).open(&path).unwrap().set_len(100_000).unwrap();
    assert!(reader.read_to_end() == bytes[..100_000], "a truncated file ends");
}

#[test]
fn a_started_pipeline_reads_its_own_copy_and_closes_it() {
    let folder = tempfile::tempdir().unwrap();
    let (path, bytes) = make_file(folder.path());
    let source = open_in_test(&path);
    let reader = Reader::open("", &source);
    let copies = || {
        let names = std::fs::read_dir("/proc/self/fd").unwrap().flatten().map(|entry| entry.path());
        names.filter(|name| std::fs::read_link(name).is_ok_and(|target| target == path)).count()
    };
    assert_eq!(copies(), 2);
    drop(source);
    // Takes the number that was just closed, unless another test does.
    let other = folder.path().join("b.bin");
    std::fs::write(&other, vec![9; FILE_BYTES]).unwrap();
    let _other = open_in_test(&other);
    assert!(reader.read_to_end() == bytes);
    drop(reader);
    assert_eq!(copies(), 0);
}

#[test]
fn descriptors_of_no_regular_file_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let (pipe, _writer) = std::io::pipe().unwrap();
    let directory = rustix::fs::open(folder.path(), rustix::fs::OFlags::RDONLY, rustix::fs::Mode::empty()).unwrap();
    for (descriptor, reason) in [
        (-1, "it is unset"),
        (i32::MAX, "Bad file descriptor"),
        (pipe.as_raw_fd(), "it is not a regular file"),
        (directory.as_raw_fd(), "it is not a regular file"),
    ] {
        let reader = Reader::new("");
        reader.source().set_property("descriptor", descriptor);
        assert!(reader.pause().is_err(), "{reason}");
        let error = reader.first_error();
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_an_error_with_its_cause() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.bin");
    // Opened for writing only, so that every read fails.
    let file = std::fs::File::create(&path).unwrap();
    file.set_len(5000).unwrap();
    let reader = Reader::new("");
    reader.source().set_property("descriptor", file.as_raw_fd());
    assert!(reader.pause().is_err());
    let error = reader.first_error();
    assert!(error.contains("the file could not be read: Bad file descriptor"), "{error}");
}

#[test]
fn uris_contain_a_number_and_nothing_more() {
    for (uri, descriptor) in [("hcfd://0", Some(0)), ("hcfd://17", Some(17)), ("hcfd://2147483647", Some(i32::MAX))] {
        assert_eq!(parse_uri(uri), descriptor);
        assert_eq!(descriptor.map(format_uri).as_deref(), Some(uri));
    }
    for uri in ["hcfd://", "hcfd://-1", "hcfd://+1", "hcfd:1", "hcfd://1/a", "hcfd://2147483648", "file:///etc/passwd"]
    {
        assert_eq!(parse_uri(uri), None, "{uri}");
    }
    crate::engine::gst::initialize().unwrap();
    let element = gst::Element::make_from_uri(gst::URIType::Src, "hcfd://17", None).unwrap();
    assert_eq!(element.property::<i32>("descriptor"), 17);
    assert_eq!(element.factory().unwrap().name(), FACTORY_NAME);
    assert!(gst::Element::make_from_uri(gst::URIType::Src, "hcfd://a", None).is_err());
}
