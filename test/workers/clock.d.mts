export function clock(): number;
