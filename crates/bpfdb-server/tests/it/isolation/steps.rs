//! The functions of anomalies.lua once more: step by step, for transactions of BEGIN and COMMIT.

use crate::isolation::actors::{Role, Stepped, Steps, Stop};

fn number(steps: &mut dyn Steps, key: &str) -> Result<i64, Stop> {
    let value = steps.get(key)?;
    Ok(value.map_or(0, |value| value.parse().expect("a number")))
}

fn amount(role: &Role) -> i64 {
    role.arguments[0].parse().expect("a number")
}

fn value(steps: &mut dyn Steps, key: &str) -> Stepped {
    Ok(steps.get(key)?.unwrap_or("-".into()))
}

pub(crate) fn look(steps: &mut dyn Steps, role: &Role) -> Stepped {
    let mut told = String::new();
    for key in role.keys {
        told += &value(steps, key)?;
        told.push('|');
    }
    Ok(told)
}

pub(crate) fn write_both(steps: &mut dyn Steps, role: &Role) -> Stepped {
    steps.set(role.keys[0], role.arguments[0])?;
    steps.set(role.keys[1], role.arguments[0])?;
    Ok(role.arguments[0].into())
}

pub(crate) fn write_or_fail(steps: &mut dyn Steps, role: &Role) -> Stepped {
    steps.set(role.keys[0], role.arguments[0])?;
    let number = role.arguments[1].parse::<i64>();
    let number = number.map_err(|_| Stop::RollBack)?;
    Ok((number + 1).to_string())
}

pub(crate) fn write_twice(steps: &mut dyn Steps, role: &Role) -> Stepped {
    steps.set(role.keys[0], role.arguments[0])?;
    steps.set(role.keys[0], role.arguments[1])?;
    Ok(role.arguments[1].into())
}

pub(crate) fn copy(steps: &mut dyn Steps, role: &Role) -> Stepped {
    let told = value(steps, role.keys[0])?;
    steps.set(role.keys[1], &told)?;
    Ok(told)
}

pub(crate) fn read_twice(steps: &mut dyn Steps, role: &Role) -> Stepped {
    let first = value(steps, role.keys[0])?;
    steps.set(role.keys[1], &first)?;
    let second = value(steps, role.keys[0])?;
    Ok(format!("{first} {second}"))
}

pub(crate) fn see_twice(steps: &mut dyn Steps, role: &Role) -> Stepped {
    let first = value(steps, role.keys[0])?;
    let second = value(steps, role.keys[0])?;
    Ok(format!("{first} {second}"))
}

pub(crate) fn count_and_see(steps: &mut dyn Steps, role: &Role) -> Stepped {
    let count = number(steps, role.keys[0])? + 1;
    steps.set(role.keys[0], &count.to_string())?;
    let seen = number(steps, role.keys[1])?;
    steps.set(role.keys[2], &seen.to_string())?;
    Ok(seen.to_string())
}

pub(crate) fn deposit(steps: &mut dyn Steps, role: &Role) -> Stepped {
    steps.set(role.keys[0], "yes")?;
    Ok("done".into())
}

pub(crate) fn withdraw(steps: &mut dyn Steps, role: &Role) -> Stepped {
    if value(steps, role.keys[1])? == "no" {
        match value(steps, role.keys[0])?.as_str() {
            "yes" => steps.set(role.keys[1], "free")?,
            _ => steps.set(role.keys[1], "with a fee")?,
        }
    }
    Ok("done".into())
}

pub(crate) fn next_day(steps: &mut dyn Steps, role: &Role) -> Stepped {
    if value(steps, role.keys[0])? == "yes" && value(steps, role.keys[1])? != "no" {
        let day = number(steps, role.keys[2])? + 1;
        steps.set(role.keys[0], "no")?;
        steps.set(role.keys[1], "no")?;
        steps.set(role.keys[2], &day.to_string())?;
    }
    Ok("done".into())
}

pub(crate) fn transfer(steps: &mut dyn Steps, role: &Role) -> Stepped {
    let from = number(steps, role.keys[0])?;
    let to = number(steps, role.keys[1])?;
    steps.set(role.keys[0], &(from - amount(role)).to_string())?;
    steps.set(role.keys[1], &(to + amount(role)).to_string())?;
    Ok("done".into())
}

pub(crate) fn sum(steps: &mut dyn Steps, role: &Role) -> Stepped {
    let sum = number(steps, role.keys[0])? + number(steps, role.keys[1])?;
    steps.set(role.keys[2], &sum.to_string())?;
    Ok(sum.to_string())
}

pub(crate) fn add(steps: &mut dyn Steps, role: &Role) -> Stepped {
    let sum = number(steps, role.keys[0])? + amount(role);
    steps.set(role.keys[0], &sum.to_string())?;
    Ok(sum.to_string())
}

pub(crate) fn leave_or_return(steps: &mut dyn Steps, role: &Role) -> Stepped {
    if value(steps, role.keys[0])? == "off" {
        steps.set(role.keys[0], "on")?;
        return Ok("returned".into());
    }
    if value(steps, role.keys[1])? == "on" {
        steps.set(role.keys[0], "off")?;
        return Ok("left".into());
    }
    Ok("stayed".into())
}

pub(crate) fn insert_or_delete(steps: &mut dyn Steps, role: &Role) -> Stepped {
    if steps.get(role.keys[0])?.is_some() {
        steps.delete(role.keys[0])?;
        return Ok("deleted".into());
    }
    if steps.get(role.keys[1])?.is_none() {
        steps.set(role.keys[0], "here")?;
        return Ok("inserted".into());
    }
    Ok("neither".into())
}

pub(crate) fn claim_or_release(steps: &mut dyn Steps, role: &Role) -> Stepped {
    let (counter, told) = match steps.get(role.keys[0])? {
        Some(_) => {
            steps.delete(role.keys[0])?;
            (role.keys[2], "released")
        }
        None => {
            steps.set(role.keys[0], "taken")?;
            (role.keys[1], "claimed")
        }
    };
    let count = number(steps, counter)? + 1;
    steps.set(counter, &count.to_string())?;
    Ok(told.into())
}
