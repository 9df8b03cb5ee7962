export async function muslHostLibraries({ name }) {
  throw new Error(`${name}: no libraries for a host with musl`);
}
