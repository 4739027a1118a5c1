//! `hearthcast doctor --encode`: what encodes and decodes on this machine, as a text to send. It names hardware and programs, no
//! files, addresses or users.

use std::fmt::{Display, Write};
use std::path::Path;

use crate::config::Config;
use crate::engine::encoder_speed::measure_speed;
use crate::engine::hardware_devices::{describe_graphics_cards, list_devices, processor_name};
use crate::engine::versions;
use crate::service::renditions::local_encoders::LocalEncoders;

/// Tries everything, which takes some seconds for each encoder that works.
pub async fn write_report(config: &Config) -> String {
    let encoders = LocalEncoders::new(config);
    let mut report = Report::default();
    report.add_machine();
    let tested = encoders.report().await;
    report.line("ffmpeg", tested.version.as_deref().unwrap_or("missing"));
    report.heading("encoders: software encoded a frame, hardware two seconds of 8-bit, 10-bit and interlaced video like the source");
    for encoder in &tested.working {
        let speed = measure_speed(&config.ffmpeg, encoder).await;
        let kind = if encoder.is_hardware { "hardware" } else { "software" };
        report.line(encoder.name, format_args!("{kind}, works, {}", speed.describe()));
    }
    for rejected in &tested.rejected {
        report.line(rejected.name, format_args!("does not work: {}", rejected.reason));
    }
    report.heading("decoding hardware: a second in each format, compared with software");
    let decoders = encoders.decoders().await;
    for working in &decoders.working {
        for format in &working.formats {
            report.line(working.decoder.name, format_args!("{}, works", format.name));
        }
        for (format, reason) in &working.rejected_formats {
            report.line(working.decoder.name, format_args!("{}, does not work: {reason}", format.name));
        }
    }
    for rejected in &decoders.rejected {
        report.line(rejected.name, format_args!("does not work: {}", rejected.reason));
    }
    report.text
}

#[derive(Default)]
struct Report {
    text: String,
}

impl Report {
    fn heading(&mut self, text: &str) {
        let _ = writeln!(self.text, "\n{text}");
    }

    fn line(&mut self, name: &str, value: impl Display) {
        let _ = writeln!(self.text, "  {name:<20} {value}");
    }

    fn add_machine(&mut self) {
        let _ = writeln!(self.text, "Encoders and decoders of this machine");
        self.line("hearthcast", env!("CARGO_PKG_VERSION"));
        let system = rustix::system::uname();
        let kernel = format!("{} {}", system.release().to_string_lossy(), system.machine().to_string_lossy());
        self.line("kernel", kernel);
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        self.line("processor", format_args!("{}, {processors} available", processor_name()));
        let devices: Vec<String> = list_devices(Path::new("/dev")).into_iter().collect();
        self.line("devices", if devices.is_empty() { "none".to_owned() } else { devices.join(" ") });
        for card in describe_graphics_cards(Path::new("/sys/class/drm")) {
            self.line("graphics card", card);
        }
        self.line("GStreamer", versions::gstreamer_version());
    }
}
