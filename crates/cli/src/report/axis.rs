//! Axes: which part of the numbers they show, and where they have ticks.

use super::text::Unit;

/// Ticks of an axis at most, about.
const TICKS_MAX: f64 = 6.0;

/// How numbers become places.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Scale {
    /// Equal differences are equally long.
    Linear,
    /// Each doubling is equally long. Numbers up to zero are not shown.
    Log2,
    /// Each factor of ten is equally long. Numbers up to zero are not shown.
    Log10,
}

/// What an axis says.
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    pub(super) label: String,
    pub(super) unit: Unit,
    scale: Scale,
    from: Option<f64>,
    to: Option<f64>,
}

impl Axis {
    /// A linear axis for what the label says.
    pub(crate) fn new(label: impl Into<String>, unit: Unit) -> Axis {
        Axis { label: label.into(), unit, scale: Scale::Linear, from: None, to: None }
    }

    /// With another scale.
    pub(crate) fn scale(self, scale: Scale) -> Axis {
        Axis { scale, ..self }
    }

    /// From this number on, whatever the data.
    pub(crate) fn from(self, from: f64) -> Axis {
        Axis { from: Some(from), ..self }
    }

    /// Up to this number, whatever the data.
    pub(crate) fn to(self, to: f64) -> Axis {
        Axis { to: Some(to), ..self }
    }

    /// The axis for this data, ending at ticks.
    pub(super) fn fit(&self, values: impl Iterator<Item = f64>) -> Fitted {
        self.fit_to(values, false)
    }

    /// The axis for this data; one that is linear ends where the data ends.
    pub(super) fn fit_tight(&self, values: impl Iterator<Item = f64>) -> Fitted {
        self.fit_to(values, true)
    }

    fn fit_to(&self, values: impl Iterator<Item = f64>, is_tight: bool) -> Fitted {
        let is_shown = |value: &f64| value.is_finite() && (self.scale == Scale::Linear || *value > 0.0);
        let (low, high) = values
            .chain(self.from)
            .chain(self.to)
            .filter(is_shown)
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
        let (low, high) = if low > high { (1.0, 2.0) } else { (low, high) };
        let (low, high) = (self.from.filter(is_shown).unwrap_or(low), self.to.filter(is_shown).unwrap_or(high));
        match self.scale {
            Scale::Linear => self.fit_linear(low, high.max(low), is_tight),
            Scale::Log2 => self.fit_powers(low.log2(), high.max(low).log2(), 2.0),
            Scale::Log10 => self.fit_powers(low.log10(), high.max(low).log10(), 10.0),
        }
    }

    fn fit_linear(&self, low: f64, high: f64, is_tight: bool) -> Fitted {
        let high = if high > low { high } else { low + low.abs().max(1.0) };
        let step = linear_step(self.unit, high - low);
        let (first, last) = ((low / step + 1e-9).floor(), (high / step - 1e-9).ceil());
        let low = if is_tight || self.from.is_some() { low } else { first * step };
        let high = if is_tight || self.to.is_some() { high } else { last * step };
        let ticks = (first as i64..=last as i64).map(|at| at as f64 * step);
        let ticks = ticks.filter(|tick| *tick >= low - step * 1e-6 && *tick <= high + step * 1e-6).collect();
        Fitted { scale: Scale::Linear, low, high, ticks }
    }

    /// The numbers are powers of the base.
    fn fit_powers(&self, low: f64, high: f64, base: f64) -> Fitted {
        let (low, high) = ((low + 1e-9).floor(), (high - 1e-9).ceil().max((low + 1e-9).floor() + 1.0));
        let apart = |count: f64| ((high - low) / count).ceil().max(1.0);
        let step = match apart(TICKS_MAX) {
            // Powers of two of bytes are shortest at 1, 32 and 1024 of a unit.
            step if base == 2.0 && step > 2.0 => (step / 5.0).ceil() * 5.0,
            step => step,
        };
        let first = (low / step).ceil() as i64;
        let ticks = (first..).map(|at| at as f64 * step).take_while(|at| *at <= high).map(|at| base.powf(at)).collect();
        let scale = if base == 2.0 { Scale::Log2 } else { Scale::Log10 };
        Fitted { scale, low, high, ticks }
    }
}

/// The distance of ticks on a linear axis.
fn linear_step(unit: Unit, range: f64) -> f64 {
    const MINUTES: [f64; 11] = [60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0, 7200.0, 10_800.0, 21_600.0, 43_200.0];
    let least = range / TICKS_MAX;
    match unit {
        Unit::Bytes | Unit::BytesPerS => 2f64.powf(least.log2().ceil()).max(if unit == Unit::Bytes { 1.0 } else { 0.0 }),
        Unit::Seconds if least > 30.0 => {
            MINUTES.into_iter().find(|step| *step >= least).unwrap_or_else(|| (least / 86_400.0).ceil() * 86_400.0)
        }
        _ => {
            let ten = 10f64.powf(least.log10().floor());
            let step = [1.0, 2.0, 5.0].into_iter().map(|of| of * ten).find(|step| *step >= least * (1.0 - 1e-9));
            step.unwrap_or(10.0 * ten).max(if unit == Unit::Count { 1.0 } else { 0.0 })
        }
    }
}

/// An axis that knows its ends.
pub(super) struct Fitted {
    scale: Scale,
    /// The ends; on a logarithmic axis their exponents.
    low: f64,
    high: f64,
    /// The numbers that have ticks.
    pub(super) ticks: Vec<f64>,
}

impl Fitted {
    /// Where a number is, from 0 at the low end to 1. None if it is not on the axis at all.
    pub(super) fn place(&self, value: f64) -> Option<f64> {
        let value = match self.scale {
            Scale::Linear => value,
            Scale::Log2 => value.log2(),
            Scale::Log10 => value.log10(),
        };
        let place = (value - self.low) / (self.high - self.low);
        place.is_finite().then(|| place.clamp(-0.02, 1.02))
    }

    /// Where bars begin.
    pub(super) fn base(&self) -> f64 {
        if self.scale == Scale::Linear { self.place(0.0).unwrap_or(0.0).clamp(0.0, 1.0) } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis, values: &[f64]) -> Vec<String> {
        axis.fit(values.iter().copied()).ticks.iter().map(|tick| axis.unit.show(*tick)).collect()
    }

    #[test]
    fn ticks_are_round() {
        let mib = 1_048_576.0;
        let bytes = Axis::new("capacity", Unit::Bytes);
        assert_eq!(labels(&bytes, &[0.0, 100.0 * mib]), ["0 B", "32 MiB", "64 MiB", "96 MiB", "128 MiB"]);
        assert_eq!(
            labels(&bytes.clone().scale(Scale::Log2), &[3.0 * mib, 60.0 * mib]),
            ["2 MiB", "4 MiB", "8 MiB", "16 MiB", "32 MiB", "64 MiB"]
        );
        let wide = bytes.scale(Scale::Log2);
        assert_eq!(labels(&wide, &[4096.0, 8192.0 * mib]), ["32 KiB", "1 MiB", "32 MiB", "1 GiB"]);
        assert_eq!(labels(&Axis::new("", Unit::Share).from(0.0).to(1.0), &[0.3]), ["0 %", "20 %", "40 %", "60 %", "80 %", "100 %"]);
        assert_eq!(labels(&Axis::new("", Unit::Seconds), &[0.0, 500.0]), ["0 s", "2 min", "4 min", "6 min", "8 min", "10 min"]);
        assert_eq!(labels(&Axis::new("", Unit::Count), &[0.0, 3.0]), ["0", "1", "2", "3"]);
        assert_eq!(
            labels(&Axis::new("", Unit::Number).scale(Scale::Log10), &[1.0, 1e6]),
            ["1", "10", "100", "1000", "10000", "100000", "1000000"]
        );
    }

    #[test]
    fn odd_data_has_an_axis() {
        for scale in [Scale::Linear, Scale::Log2, Scale::Log10] {
            for values in [&[][..], &[0.0], &[f64::NAN, f64::INFINITY], &[-3.0, -3.0], &[5.0], &[1e-300, 1e300]] {
                for unit in [Unit::Bytes, Unit::Seconds, Unit::Share, Unit::Count] {
                    let fitted = Axis::new("", unit).scale(scale).fit(values.iter().copied());
                    assert!(fitted.ticks.len() < 20, "{scale:?} {values:?} {unit:?}");
                    assert!(fitted.place(1.0).is_some_and(|place| (-0.1..=1.1).contains(&place)), "{scale:?} {values:?} {unit:?}");
                }
            }
        }
        assert_eq!(Axis::new("", Unit::Count).scale(Scale::Log2).fit([1.0, 4.0].into_iter()).place(0.0).map(|place| place < 0.0), None);
    }
}
