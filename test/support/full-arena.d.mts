export function fillArena(): void;
