//! Metrics in the text format of Prometheus, version 0.0.4: `# HELP`, `# TYPE`, and a line per sample.

use std::fmt::{Display, Write as _};

use crate::domain::histogram::{BOUNDS_SECONDS, HistogramCounts};

/// The content type of the format.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricType {
    /// A number that only grows until the server ends. Its name ends in `_total`.
    Counter,
    /// A number at this moment.
    Gauge,
    /// Durations by upper bounds.
    Histogram,
}

impl MetricType {
    fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// The text under construction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetricsText(String);

impl MetricsText {
    /// Adds a metric with its samples: each has labels (name and value) and a number.
    pub fn add<V: Display>(
        &mut self,
        name: &str,
        metric_type: MetricType,
        help: &str,
        samples: impl IntoIterator<Item = (Vec<(&'static str, String)>, V)>,
    ) {
        self.add_head(name, metric_type, help);
        for (labels, value) in samples {
            self.add_sample(name, &labels, value);
        }
    }

    /// Adds a histogram of seconds with its label sets.
    pub fn add_histogram(
        &mut self,
        name: &str,
        help: &str,
        histograms: impl IntoIterator<Item = (Vec<(&'static str, String)>, HistogramCounts)>,
    ) {
        self.add_head(name, MetricType::Histogram, help);
        for (labels, counts) in histograms {
            let bounds = BOUNDS_SECONDS.iter().map(f64::to_string).chain(["+Inf".to_owned()]);
            for (bound, count) in bounds.zip(counts.within.into_iter().chain([counts.count])) {
                let labels: Vec<_> = labels.iter().cloned().chain([("le", bound)]).collect();
                self.add_sample(&format!("{name}_bucket"), &labels, count);
            }
            self.add_sample(&format!("{name}_sum"), &labels, counts.sum_seconds);
            self.add_sample(&format!("{name}_count"), &labels, counts.count);
        }
    }

    fn add_head(&mut self, name: &str, metric_type: MetricType, help: &str) {
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {}", metric_type.as_str());
    }

    fn add_sample(&mut self, name: &str, labels: &[(&'static str, String)], value: impl Display) {
        let labels: Vec<String> =
            labels.iter().map(|(label, value)| format!("{label}=\"{}\"", escape_label(value))).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(self.0, "{name}{labels} {value}");
    }

    /// Adds a metric with one sample and without labels.
    pub fn add_single(&mut self, name: &str, metric_type: MetricType, help: &str, value: impl Display) {
        self.add(name, metric_type, help, [(Vec::new(), value)]);
    }

    pub fn into_string(self) -> String {
        self.0
    }
}

fn escape_label(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::domain::histogram::Histogram;

    #[test]
    fn a_histogram_has_a_bucket_for_each_bound_and_one_for_all() {
        let histogram = Histogram::default();
        histogram.record(Duration::from_millis(20));
        histogram.record(Duration::from_secs(100));
        let mut text = MetricsText::default();
        text.add_histogram("wait_seconds", "Waits.", [(vec![("kind", "a".to_owned())], histogram.counts())]);
        let text = text.into_string();
        assert!(text.starts_with("# HELP wait_seconds Waits.\n# TYPE wait_seconds histogram\n"), "{text}");
        for line in [
            "wait_seconds_bucket{kind=\"a\",le=\"0.01\"} 0",
            "wait_seconds_bucket{kind=\"a\",le=\"0.025\"} 1",
            "wait_seconds_bucket{kind=\"a\",le=\"60\"} 1",
            "wait_seconds_bucket{kind=\"a\",le=\"+Inf\"} 2",
            "wait_seconds_sum{kind=\"a\"} 100.02",
            "wait_seconds_count{kind=\"a\"} 2",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is missing in {text}");
        }
    }

    #[test]
    fn each_metric_has_its_help_its_type_and_its_samples() {
        let mut text = MetricsText::default();
        text.add_single("up", MetricType::Gauge, "Two\nlines with a \\.", 1);
        let label = |value: &str| vec![("cause", value.to_owned()), ("n", "1".to_owned())];
        text.add("deaths_total", MetricType::Counter, "Deaths.", [(label("a\"b\\c\nd"), 2), (label("killed"), 0)]);
        let expected = "# HELP up Two\\nlines with a \\\\.\n# TYPE up gauge\nup 1\n\
            # HELP deaths_total Deaths.\n# TYPE deaths_total counter\n\
            deaths_total{cause=\"a\\\"b\\\\c\\nd\",n=\"1\"} 2\ndeaths_total{cause=\"killed\",n=\"1\"} 0\n";
        assert_eq!(text.into_string(), expected);
    }
}
