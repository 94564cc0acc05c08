import { StartSdk } from '@start9labs/start-sdk'
import { manifest } from './manifest'

export const sdk = StartSdk.of().withManifest(manifest).build(true)

/** The port of RPC, with the password in the volume's file .cookie. */
export const RPC_PORT = 8332
