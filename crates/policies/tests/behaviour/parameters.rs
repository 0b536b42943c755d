//! Parameters: found, changed, refused, written and read.

use std::collections::BTreeMap;

use policies::parameter::apply;
use policies::{BatchParameters, PdpaParameters, Value, WindowParameters};

use crate::support::{all, create};

#[test]
fn every_parameter_is_described_and_takes_exactly_its_range() {
    let mut seen = 0;
    for name in all().names() {
        let mut policy = create(name);
        for parameter in policy.parameters() {
            let key = parameter.key;
            assert!(
                !parameter.description.is_empty() && parameter.value == parameter.default,
                "{name}: {key}"
            );
            for value in [parameter.lowest, parameter.highest, parameter.default] {
                assert_eq!(policy.configure(key, &value), Ok(()), "{name}: {key}");
                let now =
                    policy.parameters().into_iter().find(|now| now.key == key).map(|now| now.value);
                assert_eq!(now, Some(value), "{name}: {key}");
                // What is shown can be typed; a number may come back as a whole one, which means
                // the same.
                let typed: Value = value.to_string().parse().expect("it is the form that is shown");
                assert_eq!(policy.configure(key, &typed), Ok(()), "{name}: {key} = {typed}");
            }
            let beyond = match parameter.highest {
                Value::Switch(_) => Value::Whole(1),
                Value::Whole(most) => Value::Whole(most + 1),
                Value::Number(most) => Value::Number(most + 0.001),
                Value::Time(most) => Value::Time(most + 1),
            };
            for bad in [beyond, Value::Number(f64::NAN), Value::Number(-1.0)] {
                let message =
                    policy.configure(key, &bad).expect_err("it is out of range").to_string();
                let allowed = match parameter.highest {
                    Value::Switch(_) => "true or false".to_owned(),
                    highest => format!("from {} to {highest}", parameter.lowest),
                };
                assert!(parameter.allowed().ends_with(&allowed), "{}", parameter.allowed());
                for part in [key, &bad.to_string(), &allowed] {
                    assert!(message.contains(part), "{message:?} does not say {part:?}");
                }
            }
            let now =
                policy.parameters().into_iter().find(|now| now.key == key).map(|now| now.value);
            assert_eq!(
                now,
                Some(parameter.default),
                "a refused value leaves {name}: {key} as it was"
            );
            seen += 1;
        }
        let message =
            policy.configure("nonesuch", &Value::Whole(1)).expect_err("there is none").to_string();
        assert!(message.contains("nonesuch") && message.contains("there are: "), "{message}");
        for parameter in policy.parameters() {
            assert!(message.contains(parameter.key), "{message}");
        }
    }
    assert!(seen >= 20, "{seen} parameters");
}

#[test]
fn several_parameters_are_set_all_or_none() {
    let mut policy = create("pdpa");
    let before = policy.parameters();
    let mut settings: BTreeMap<String, Value> =
        [("base".to_owned(), Value::Whole(8)), ("step".to_owned(), Value::Whole(0))].into();
    let error = apply(&mut *policy, &settings).expect_err("a step is at least 1");
    assert_eq!(error.to_string(), "step cannot be 0; it is a whole number from 1 to 1024");
    assert_eq!(policy.parameters(), before);
    settings.insert("step".to_owned(), Value::Whole(4));
    assert_eq!(apply(&mut *policy, &settings), Ok(()));
    let values: BTreeMap<_, _> =
        policy.parameters().into_iter().map(|p| (p.key, p.value)).collect();
    assert_eq!((values["base"], values["step"]), (Value::Whole(8), Value::Whole(4)));
}

#[test]
fn typed_parameters_are_written_as_a_map_and_read_back_checked() {
    let parameters = PdpaParameters { step: 4, min_efficiency: 0.5, ..PdpaParameters::default() };
    let text = serde_json::to_string(&parameters).expect("a map of values");
    assert!(
        text.contains("\"min-efficiency\":0.5") && text.contains("\"max-wait\":\"60s\""),
        "{text}"
    );
    assert_eq!(
        serde_json::from_str::<PdpaParameters>(&text).expect("it was written so"),
        parameters
    );
    // What is left out has its default value.
    let read: WindowParameters = serde_json::from_str("{\"load\": 2}").expect("a load");
    assert_eq!(read, WindowParameters { load: 2.0, ..WindowParameters::default() });

    for (text, part) in [
        ("{\"lod\": 2}", "there is no parameter \"lod\"; there are: load, masters"),
        ("{\"load\": 0.5}", "load cannot be 0.5; it is a number from 1 to 64"),
        ("{\"masters\": 2.0}", "masters cannot be 2.0; it is a whole number from 1 to 1024"),
        ("{\"masters\": true}", "masters cannot be true; it is a whole number from 1 to 1024"),
    ] {
        let message =
            serde_json::from_str::<WindowParameters>(text).expect_err("it is wrong").to_string();
        assert!(message.contains(part), "{message}");
    }
    assert!(serde_json::from_str::<BatchParameters>("{\"backfill\": \"soon\"}").is_err());
    let wrong = WindowParameters { load: f64::NAN, masters: 1 };
    assert!(wrong.check().is_err() && policies::SwDss::with(wrong).is_err());
}

#[test]
fn values_are_read_as_they_are_typed() {
    for (text, value) in [
        ("true", Value::Switch(true)),
        ("12", Value::Whole(12)),
        ("0.7", Value::Number(0.7)),
        ("100ms", Value::Time(100_000_000)),
        ("7us", Value::Time(7_000)),
        ("3ns", Value::Time(3)),
        ("0s", Value::Time(0)),
    ] {
        assert_eq!(text.parse(), Ok(value));
        assert_eq!(value.to_string(), text);
    }
    for (text, printed) in [("25h", "90000s"), ("5min", "300s")] {
        assert_eq!(text.parse::<Value>().map(|value| value.to_string()), Ok(printed.to_owned()));
    }
    for text in
        ["", "ms", "1 s", "1d", "-1s", "99999999999999999999s", "18446744073709551615s", "yes"]
    {
        let error = text.parse::<Value>().expect_err("it is no value");
        assert!(error.to_string().contains(&format!("{text:?}")), "{error}");
    }
}
