//! `tamis-wasm-bindgen INPUT.wasm FOLDER`: writes the JavaScript module, the TypeScript declarations and the
//! WebAssembly of the package.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(input), Some(folder)) = (arguments.next(), arguments.next()) else {
        return Err("usage: tamis-wasm-bindgen INPUT.wasm FOLDER".into());
    };
    let mut bindgen = wasm_bindgen_cli_support::Bindgen::new();
    bindgen.input_path(input).out_name("core").web(true)?.typescript(true);
    bindgen.remove_name_section(true).remove_producers_section(true);
    bindgen.generate(folder)?;
    Ok(())
}
