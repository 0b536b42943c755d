//! Reads the topology from the files of `/sys/devices/system`.
//!
//! Groups (cores, packages, caches) are read as the sets of processors that each processor reports,
//! and a group is named by its lowest processor. That does not depend on the numbers of cores and
//! packages, which are not unique on all machines (-1 on some virtual ones).

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::{Cpu, Topology, TopologyError, speed};
use crate::affinity::{CpuId, CpuSet};
use crate::file;

pub(super) fn read(root: &Path) -> Result<Topology, TopologyError> {
    let folder = root.join("cpu");
    let online = match read_set(&folder.join("online"))? {
        Some(online) => online,
        None => cpu_folders(&folder)?,
    };
    if online.is_empty() {
        return Err(TopologyError::NoProcessors { path: folder });
    }
    let possible = read_set(&folder.join("possible"))?.unwrap_or_default().union(&online);
    let groups = online
        .iter()
        .map(|cpu| CpuGroups::read(&folder.join(format!("cpu{cpu}")), cpu, &online))
        .collect::<Result<Vec<CpuGroups>, TopologyError>>()?;
    let nodes = read_nodes(&root.join("node"))?;

    let (mut packages, mut cores, mut llcs) =
        (Dense::default(), Dense::default(), Dense::default());
    let mut cpus: Vec<Cpu> = Vec::with_capacity(groups.len());
    for (id, group) in online.iter().zip(groups) {
        let core = cores.number(group.core);
        let smt_index = cpus.iter().filter(|earlier| earlier.core == core).count();
        cpus.push(Cpu {
            id,
            package: packages.number(group.package),
            core,
            smt_index: u32::try_from(smt_index)
                .expect("a core has fewer processors than CpuSet::LIMIT"),
            llc: llcs.number(group.llc),
            node: nodes.iter().find(|(_, cpus)| cpus.contains(id)).map_or(0, |(node, _)| *node),
            speed: 0,
        });
    }
    speed::find(root, &mut cpus);
    Ok(Topology { cpus, possible, distances: read_distances(&root.join("node"))? })
}

/// The groups of one processor, each by its lowest processor.
struct CpuGroups {
    package: CpuId,
    core: CpuId,
    llc: CpuId,
}

impl CpuGroups {
    fn read(folder: &Path, cpu: CpuId, online: &CpuSet) -> Result<Self, TopologyError> {
        let topology = folder.join("topology");
        let lowest = |set: CpuSet| set.first();
        // The second name is the one of kernels before 5.3.
        let core = read_group(&topology, &["core_cpus_list", "thread_siblings_list"], cpu)?;
        let package = read_group(&topology, &["package_cpus_list", "core_siblings_list"], cpu)?;
        // A processor that tells nothing is a core of the first package.
        let everybody = online.first().unwrap_or(cpu);
        let package = package.and_then(lowest).unwrap_or(everybody);
        Ok(Self {
            package,
            core: core.and_then(lowest).unwrap_or(cpu),
            llc: read_llc(&folder.join("cache"), cpu)?.and_then(lowest).unwrap_or(package),
        })
    }
}

/// The first of `names` that is there. A group must hold the processor that reports it.
fn read_group(folder: &Path, names: &[&str], cpu: CpuId) -> Result<Option<CpuSet>, TopologyError> {
    for name in names {
        let path = folder.join(name);
        if let Some(set) = read_set(&path)? {
            if !set.contains(cpu) {
                return Err(garbage(
                    path,
                    &set.to_string(),
                    format!("processor {cpu} is not in its own group"),
                ));
            }
            return Ok(Some(set));
        }
    }
    Ok(None)
}

/// The processors that share the highest cache that holds data.
fn read_llc(folder: &Path, cpu: CpuId) -> Result<Option<CpuSet>, TopologyError> {
    let mut highest: Option<(u32, CpuSet)> = None;
    for (_, index) in numbered_folders(folder, "index")? {
        let level = index.join("level");
        let Some(text) = read_text(&level)? else { continue };
        let Ok(level) = text.parse::<u32>() else {
            return Err(garbage(level, &text, "expected a number".to_owned()));
        };
        let is_code_only =
            read_text(&index.join("type"))?.is_some_and(|kind| kind == "Instruction");
        if is_code_only || highest.as_ref().is_some_and(|(known, _)| *known >= level) {
            continue;
        }
        if let Some(sharers) = read_group(&index, &["shared_cpu_list"], cpu)? {
            highest = Some((level, sharers));
        }
    }
    Ok(highest.map(|(_, sharers)| sharers))
}

fn read_nodes(folder: &Path) -> Result<Vec<(u32, CpuSet)>, TopologyError> {
    let mut nodes = Vec::new();
    for (node, path) in numbered_folders(folder, "node")? {
        if let Some(cpus) = read_set(&path.join("cpulist"))? {
            nodes.push((node, cpus));
        }
    }
    Ok(nodes)
}

/// Each node's file has a number for each node that is online, in their order.
fn read_distances(folder: &Path) -> Result<Vec<(u32, u32, u32)>, TopologyError> {
    let nodes = numbered_folders(folder, "node")?;
    let mut distances = Vec::new();
    for (from, path) in &nodes {
        let file = path.join("distance");
        let Some(text) = read_text(&file)? else { continue };
        let row: Option<Vec<u32>> =
            text.split_whitespace().map(|number| number.parse().ok()).collect();
        let Some(row) = row.filter(|row| row.len() == nodes.len()) else {
            return Err(garbage(
                file,
                &text,
                format!("expected {} numbers, one per node", nodes.len()),
            ));
        };
        distances.extend(nodes.iter().zip(row).map(|((to, _), distance)| (*from, *to, distance)));
    }
    Ok(distances)
}

/// The processors that have a folder and are not switched off. For systems that hide the file
/// `online`.
fn cpu_folders(folder: &Path) -> Result<CpuSet, TopologyError> {
    let mut cpus = CpuSet::new();
    for (cpu, path) in numbered_folders(folder, "cpu")? {
        if cpu >= CpuSet::LIMIT {
            return Err(garbage(
                path,
                "",
                format!("processor numbers are below {}", CpuSet::LIMIT),
            ));
        }
        // The first processor of most machines cannot be switched off, and has no such file.
        if read_text(&path.join("online"))?.as_deref() != Some("0") {
            cpus.insert(CpuId(cpu));
        }
    }
    Ok(cpus)
}

/// The entries `<prefix><number>` of a folder, ascending by number; none when the folder is
/// missing.
fn numbered_folders(folder: &Path, prefix: &str) -> Result<Vec<(u32, PathBuf)>, TopologyError> {
    let unreadable = |source| TopologyError::Unreadable { path: folder.to_owned(), source };
    let names = match file::names(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        names => names.map_err(unreadable)?,
    };
    let mut found = Vec::new();
    for name in names {
        let number =
            name.to_str().and_then(|name| name.strip_prefix(prefix)).map(str::parse::<u32>);
        if let Some(Ok(number)) = number {
            found.push((number, folder.join(name)));
        }
    }
    found.sort_unstable();
    Ok(found)
}

fn read_set(path: &Path) -> Result<Option<CpuSet>, TopologyError> {
    let Some(text) = read_text(path)? else { return Ok(None) };
    match CpuSet::parse_list(&text) {
        Ok(set) => Ok(Some(set)),
        Err(error) => Err(garbage(path.to_owned(), &text, error.to_string())),
    }
}

/// A file's text without blanks around; `None` when it is missing.
fn read_text(path: &Path) -> Result<Option<String>, TopologyError> {
    match file::read(path) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).trim().to_owned())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(source) => Err(TopologyError::Unreadable { path: path.to_owned(), source }),
    }
}

fn garbage(path: PathBuf, content: &str, reason: String) -> TopologyError {
    TopologyError::Garbage { path, content: content.chars().take(80).collect(), reason }
}

/// Numbers groups from 0 in the order in which they come.
#[derive(Default)]
pub(super) struct Dense(Vec<CpuId>);

impl Dense {
    pub(super) fn number(&mut self, lowest: CpuId) -> u32 {
        let index = self.0.iter().position(|known| *known == lowest).unwrap_or_else(|| {
            self.0.push(lowest);
            self.0.len() - 1
        });
        u32::try_from(index).expect("there are fewer groups than CpuSet::LIMIT")
    }
}
