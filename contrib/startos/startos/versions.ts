import { IMPOSSIBLE, VersionGraph, VersionInfo } from '@start9labs/start-sdk'

const first = VersionInfo.of({
  version: '0.1.0:0',
  releaseNotes: { en_US: 'The first version.' },
  migrations: { up: async () => {}, down: IMPOSSIBLE },
})

export const versionGraph = VersionGraph.of({ current: first, other: [] })
