//! Checks that the structures and values declared in `sys` agree with the C headers.

use sovia_verbs::sys::{layout, value};
use std::collections::HashMap;
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

/// Structures that have more fields in the libraries, after the declared fields.
const CUT: [&str; 2] = ["ibv_cq", "ibv_qp"];

#[test]
fn structures_and_values_are_the_headers() {
    let headers = ["/usr/include/infiniband/verbs.h", "/usr/include/rdma/rdma_cma.h"];
    if let Some(missing) = headers.iter().find(|header| !Path::new(header).exists()) {
        println!("SKIPPED: structures_and_values_are_the_headers: there is no {missing}");
        return;
    }

    let mut program = String::from(
        "#include <stdio.h>\n#include <stddef.h>\n#include <infiniband/verbs.h>\n#include <rdma/rdma_cma.h>\nint main(void) {\n",
    );
    let mut expected = HashMap::new();
    for (name, size, fields) in layout() {
        if !CUT.contains(&name) {
            writeln!(program, "printf(\"{name} %zu\\n\", sizeof(struct {name}));").unwrap();
            expected.insert(name.to_owned(), size);
        }
        for (field, place) in fields.into_iter().filter(|(field, _)| !field.starts_with('_')) {
            let key = format!("{name}.{field}");
            writeln!(program, "printf(\"{key} %zu\\n\", offsetof(struct {name}, {field}));")
                .unwrap();
            expected.insert(key, place);
        }
    }
    for &(name, number) in value::ALL {
        writeln!(program, "printf(\"{name} %zu\\n\", (size_t)({name}));").unwrap();
        expected.insert(name.to_owned(), number as usize);
    }
    program.push_str("printf(\"ibv_send_wr.wr.rdma.rkey %zu\\n\", offsetof(struct ibv_send_wr, wr.rdma.rkey));\n");
    expected.insert("ibv_send_wr.wr.rdma.rkey".into(), 48);
    program.push_str("return 0; }\n");

    let folder = std::env::temp_dir().join(format!("sovia-verbs-layout-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (source, binary) = (folder.join("layout.c"), folder.join("layout"));
    std::fs::write(&source, program).unwrap();
    let compiled = Command::new("cc").arg(&source).arg("-o").arg(&binary).status();
    if compiled.is_err() {
        println!("SKIPPED: structures_and_values_are_the_headers: there is no cc");
        return;
    }
    assert!(compiled.unwrap().success(), "{}", source.display());
    let output = String::from_utf8(Command::new(&binary).output().unwrap().stdout).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();

    let mut seen = 0;
    for line in output.lines() {
        let (key, number) = line.split_once(' ').unwrap();
        assert_eq!(expected.get(key), Some(&number.parse().unwrap()), "{key}");
        seen += 1;
    }
    assert_eq!(seen, expected.len());
    assert!(seen > 150, "{seen}");
}
